//! What the fuzz targets share: facts of an input joined the way the command line does it, and what must hold of all output.

use std::io::{self, Write};

use ptxinspect::cubin::{Image, lines::LineTable};
use ptxinspect::emit::clean::{Clean, Form, is_unsafe};
use ptxinspect::emit::text::COLOURS;
use ptxinspect::ptx::Module;
use ptxinspect::registers::code::Codes;
use ptxinspect::report::annotation::{self, Annotation};
use ptxinspect::report::{Evaluated, Facts, LaunchHints, PtxText, Unit, Wanted, join};

/// A unit and its annotation: a cubin, with the PTX it is said to come from.
pub fn unit(image: &Image<'_>, module: Option<&Module<'_>>, text: &str) -> (Unit, Annotation) {
    let launch = LaunchHints { threads: Some(384.into()), smem_dynamic_bytes: Some(0), ..LaunchHints::default() };
    let wanted = Wanted { timelines: true, ..Wanted::ALL };
    let evaluated = module.map(|module| Evaluated::new(module, &launch, wanted, || true));
    let lines = LineTable::parse(image);
    let codes = Codes::new(image);
    let facts = Facts {
        image,
        lines: &lines,
        codes: Some(&codes),
        log: None,
        module,
        flags: &[],
        launch,
        at: &[],
        roles: &[],
        evaluated: evaluated.as_ref(),
        wanted,
    };
    let mut unit = Unit { input: "input".to_owned(), ..Unit::default() };
    join(&facts, &mut unit);
    unit.ptx = PtxText::parse(text.to_owned());
    let annotation = annotation::annotate(&annotation::Inputs {
        image,
        lines: &lines,
        codes: Some(&codes),
        module,
        kernels: &unit.kernels,
        wanted: &|_| true,
        launch: LaunchHints::default(),
        values: true,
    });
    (unit, annotation)
}

/// Writes in a form, and fails where something that no reader may get has left, or JSON is none.
pub fn leaves_clean(form: Form, emit: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut bytes = Vec::new();
    let mut clean = Clean::new(form, &mut bytes);
    emit(&mut clean).unwrap();
    drop(clean);
    let text = String::from_utf8(bytes).expect("output is UTF-8");
    let mut plain = text.clone();
    if form == Form::Text {
        for code in COLOURS {
            plain = plain.replace(std::str::from_utf8(code).unwrap(), "");
        }
    }
    if let Some(c) = plain.chars().find(|&c| is_unsafe(c) && c != '\n' && c != '\t') {
        panic!("{c:?} left in {form:?}");
    }
    for line in plain.lines() {
        assert!(form == Form::Commands || !line.trim_start().starts_with("::"), "a command: {line}");
        assert!(!line.contains("##["), "a command: {line}");
    }
    text
}

/// The same for JSON: one value, or a value a line.
pub fn leaves_json(emit: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    let text = leaves_clean(Form::Json, emit);
    let values = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
    values.for_each(|value| drop(value.expect("JSON")));
}

/// The same for HTML, SVG and XML: nothing of an input is an element or ends one. Inputs are marked `<fuzz`.
pub fn leaves_markup(form: Form, emit: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    let text = leaves_clean(form, emit);
    assert!(!text.contains("<fuzz"), "an element of an input");
}
