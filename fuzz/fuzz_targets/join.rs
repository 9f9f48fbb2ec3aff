//! Any bytes as a cubin, through everything that is told of one: the report, the annotation, the listing, the row of a library.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use ptxinspect::cubin::{Image, lines::LineTable};
use ptxinspect::emit::clean::Form;
use ptxinspect::emit::{annotate, html, json, library, listing as list, svg, text};
use ptxinspect::flow::Rule;
use ptxinspect::registers::code::{Code, Counting};
use ptxinspect::report::annotation::By;
use ptxinspect::report::library::{Beside, Depth, Summary, rows};
use ptxinspect::report::listing::{self, Wanted};
use ptxinspect::report::{LaunchHints, Report};
use ptxinspect::sass::{Decoder, Speller};
use ptxinspect_fuzz::{leaves_clean, leaves_json};

fuzz_target!(|data: &[u8]| {
    let Ok(image) = Image::parse(data) else { return };
    let (unit, annotation) = ptxinspect_fuzz::unit(&image, None, "");
    for kernel in &unit.kernels {
        let code = &kernel.instructions;
        if let (Some(total), Some(decoded), Some(unknown), Some(padding)) =
            (code.total, code.decoded, code.unknown, code.padding)
        {
            assert_eq!(decoded + unknown + padding, total, "every word is accounted for");
        }
    }
    let lines = LineTable::parse(&image);
    let counting = Counting::new(Rule::Sound, &image);
    let speller = Decoder::new(image.arch).map(|decoder| RefCell::new(Speller::new(decoder)));
    for function in &image.functions {
        let wanted = Wanted { sets: true, nvdisasm: None };
        let code = Code::analyse(image.arch, function, &counting);
        let section = listing::open(&image, &lines, function, code, speller.as_ref(), wanted);
        for listed in section.parts().iter().map(|part| part.listed()) {
            let options =
                list::Options { hex: true, control: true, explain: true, sets: true, no_text: "", width: Some(60) };
            leaves_clean(Form::Text, |out| list::write_text(&listed, &options, out));
        }
    }
    let beside = Beside { module: None, launch: LaunchHints::default(), log: None };
    let (entry, rows) = rows(&image, "entry", "sm_90", Depth::Full, beside, &|_| true);
    let mut summary = Summary::default();
    summary.count(&entry, &rows);
    summary.finish();
    let table = library::Table {
        inputs: &["input".to_owned()],
        entries: &[entry],
        rows: &rows,
        total_rows: rows.len() as u64,
        summary: &summary,
        sorted_by: "name",
        full: true,
        width: 100,
        verbose: true,
    };
    leaves_clean(Form::Text, |out| library::write_text(&table, out));
    leaves_clean(Form::Plain, |out| library::write_csv(&table, out));
    leaves_clean(Form::Plain, |out| library::write_markdown(&table, out));
    leaves_json(|out| library::write_json(&table, out));
    for by in [By::Ptx, By::Source] {
        let (view, options) = (annotation.view(by), annotate::Options::default());
        leaves_clean(Form::Text, |out| annotate::write_text(&unit, &view, &options, out));
        leaves_json(|out| annotate::write_json(&unit, &view, &options, out));
    }
    let report = Report::new(vec![unit.clone()]);
    leaves_json(|out| json::write(&report, out));
    leaves_clean(Form::Text, |out| {
        text::write(&report, &text::Options { verbose: true, top: 5, width: 100, pictures: true, links: None }, out)
    });
    let units = [(unit, annotation)];
    leaves_clean(Form::Plain, |out| html::write(&units, html::Opening::Annotation, out));
    leaves_clean(Form::Plain, |out| html::write_library(&table, &units, out));
    leaves_clean(Form::Plain, |out| svg::write(&units, out));
});
