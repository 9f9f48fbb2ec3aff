//! A report in which every text is the input's: whatever it says, each format is well formed and nothing acts on its reader.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use ptxinspect::compare::{DIFF_SCHEMA, Difference, SideFacts, differences};
use ptxinspect::cubin::Image;
use ptxinspect::emit::clean::Form;
use ptxinspect::emit::{annotate, diff, gate as verdicts, html, json, matrix as matrices, svg, text};
use ptxinspect::gate::{self, Baseline, Check, Date, Measured, Metric, Policy, Scope};
use ptxinspect::matrix::{Cell, CellKernel, Matrix};
use ptxinspect::report::annotation::{Annotation, By};
use ptxinspect::report::{PtxText, Report, Unit};
use ptxinspect_fuzz::{leaves_clean, leaves_json, leaves_markup};
use serde_json::Value;

const CUBIN: &[u8] = include_bytes!("../../testdata/cubin/hopper-13.4-sm_90a.cubin");
const PTX: &str = include_str!("../../testdata/cubin/src/hopper.ptx");
/// Fields that hold what a file says.
const FREE: [&str; 16] = [
    "input",
    "name",
    "demangled",
    "message",
    "text",
    "file",
    "code",
    "reason",
    "version",
    "made_by",
    "made_with",
    "kernel",
    "within",
    "path",
    "detail",
    "fix",
];

fn original() -> &'static (Value, Unit, Annotation) {
    static ORIGINAL: OnceLock<(Value, Unit, Annotation)> = OnceLock::new();
    ORIGINAL.get_or_init(|| {
        let module = ptxinspect::ptx::parse(PTX);
        let (unit, annotation) = ptxinspect_fuzz::unit(&Image::parse(CUBIN).unwrap(), Some(&module), PTX);
        (serde_json::to_value(&unit).unwrap(), unit, annotation)
    })
}

/// Puts the input's pieces where free text stands.
fn fill(value: &mut Value, key: &str, pieces: &mut dyn FnMut() -> String) {
    match value {
        Value::String(text) if FREE.contains(&key) => *text = pieces(),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, key, pieces)),
        Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| fill(value, key, pieces)),
        _ => {}
    }
}

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut cycle = text.split('\0').cycle();
    // There are hundreds of places for one.
    let mut pieces = || cycle.next().unwrap_or_default().chars().take(100).chain("<fuzz".chars()).collect::<String>();
    let (value, before, annotation) = original();
    let mut value = value.clone();
    fill(&mut value, "", &mut pieces);
    let mut unit: Unit = serde_json::from_value(value).unwrap();
    unit.ptx = PtxText::parse(text.clone().into_owned());
    let mut annotation = annotation.clone();
    annotation.texts.iter_mut().for_each(|ptx| *ptx = PtxText::new(text.clone().into_owned()));
    annotation.files = vec![pieces()];
    annotation.sources = vec![Ok(PtxText::new(text.clone().into_owned()))];
    for kernel in &mut annotation.kernels {
        kernel.name = pieces();
        kernel
            .instructions
            .iter_mut()
            .for_each(|instruction| instruction.source = Some((0, ptxinspect::base::Line(1))));
    }
    for by in [By::Ptx, By::Source] {
        let (view, options) = (annotation.view(by), annotate::Options::default());
        leaves_clean(Form::Text, |out| annotate::write_text(&unit, &view, &options, out));
        leaves_json(|out| annotate::write_json(&unit, &view, &options, out));
        leaves_clean(Form::Plain, |out| annotate::write_ptx(&unit, &view, &options, out));
    }
    let difference = Difference {
        schema: DIFF_SCHEMA.to_owned(),
        units: vec![differences(before, &unit, &|_| None, &|_| None), differences(&unit, before, &|_| None, &|_| None)],
        only_before: vec![SideFacts::of(before)],
        only_after: vec![SideFacts::of(&unit)],
    };
    let options = diff::Options { top: 20, width: 100, more: diff::MORE };
    leaves_clean(Form::Text, |out| diff::write_text(&difference, &options, out));
    leaves_json(|out| diff::write_json(&difference, out));
    leaves_markup(Form::Plain, |out| diff::write_html(&difference, &options, out));
    let measured = [Measured::new(&unit, pieces(), &[pieces()], None)];
    let baseline = Baseline { units: vec![Measured::new(before, pieces(), &[], None).unit, measured[0].unit.clone()] };
    let scope = Scope { kernels: &[], some_inputs: false, some_arches: false, some_ptxas: false, exists: &|_| true };
    let check = Check {
        measured: &measured,
        baseline: &baseline,
        policy: &Policy::parse("[[rule]]\nkernel = \"*\"\nbudgets = [\"registers <= 1\"]\n").unwrap(),
        ratchet: true,
        today: Date::from_unix_seconds(0),
        scope: &scope,
        baseline_name: &pieces(),
    };
    let mut verdict = gate::check(&check);
    verdict.units.iter_mut().for_each(|unit| unit.command = Some(pieces()));
    leaves_clean(Form::Text, |out| {
        verdicts::write_text(&verdict, &verdicts::Options { verbose: true, width: 100 }, out)
    });
    leaves_json(|out| verdicts::write_json(&verdict, out));
    leaves_json(|out| verdicts::write_sarif(&verdict, out));
    leaves_clean(Form::Plain, |out| verdicts::write_markdown(&verdict, out));
    leaves_markup(Form::Plain, |out| verdicts::write_junit(&verdict, out));
    leaves_markup(Form::Plain, |out| verdicts::write_html(&verdict, out));
    let commands = leaves_clean(Form::Commands, |out| verdicts::write_github(&verdict, out));
    for line in commands.lines().filter(|line| line.trim_start().starts_with("::")) {
        assert!(line.starts_with("::error file=") || line.starts_with("::warning file="), "{line}");
    }
    let kernel = unit.kernels.first().map(CellKernel::new).unwrap();
    let kernel = CellKernel { name: pieces(), ruled_by: Some(pieces()), ..kernel };
    let cell = |ptxas: String, error: Option<String>| Cell {
        input: unit.input.clone(),
        arch: "sm_90a".to_owned(),
        ptxas,
        ptxas_path: Some(unit.input.clone()),
        setting: String::new(),
        overrides: true,
        failed: error.is_some(),
        asked: Some(unit.input.clone()),
        flags: vec![unit.input.clone()],
        error,
        kernels: vec![kernel.clone()],
    };
    let matrix = Matrix::new(
        vec![cell("12.9.86".to_owned(), None), cell(text.clone().into_owned(), Some(text.into_owned()))],
        Vec::new(),
    );
    let metrics = vec![Metric::Registers, Metric::Instructions];
    leaves_clean(Form::Text, |out| matrices::write_text(&matrix, &matrices::Options { metrics, width: 100 }, out));
    leaves_json(|out| matrices::write_json(&matrix, out));
    let pages = vec![(0, (unit.clone(), annotation.clone()))];
    leaves_markup(Form::Plain, |out| html::write_matrix(&matrix, &[Metric::Registers], pages, out));
    let report = Report::new(vec![unit.clone()]);
    leaves_json(|out| json::write(&report, out));
    leaves_clean(Form::Text, |out| {
        text::write(&report, &text::Options { verbose: true, top: 20, width: 100, pictures: true, links: None }, out)
    });
    let units = [(unit, annotation)];
    leaves_markup(Form::Plain, |out| html::write(&units, html::Opening::Report, out));
    leaves_markup(Form::Plain, |out| svg::write(&units, out));
});
