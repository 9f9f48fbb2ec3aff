//! The page: one file that holds its data, its style and its program, and asks for nothing from anywhere.
//!
//! Facts travel as JSON in `<script type="application/json">`: an index of all units, and each section's code and each text apart, so
//! that a page of a thousand kernels only decodes what is looked at. Every `<` in them is written as an escape, so that no
//! name can end the element it is in; the page's program writes names as text.

mod data;
mod library;
mod matrix;

use std::io::{self, Write};

use crate::emit::library::Table;
use crate::emit::page;
use crate::gate::Metric;
use crate::matrix::Matrix;
use crate::report::Unit;
use crate::report::annotation::Annotation;

/// What the page opens with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The table of kernels, where there are several.
    Report,
    /// The first kernel's code.
    Annotation,
}

const BODY: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const PROGRAM: [&str; 10] = [
    include_str!("data.js"),
    include_str!("findings.js"),
    include_str!("list.js"),
    include_str!("text.js"),
    include_str!("curve.js"),
    include_str!("view.js"),
    include_str!("library.js"),
    include_str!("matrix.js"),
    include_str!("memory.js"),
    include_str!("main.js"),
];
/// Nothing is fetched, whatever a file's text may look like.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// Writes the page of some units.
pub fn write(units: &[(Unit, Annotation)], opening: Opening, out: &mut dyn Write) -> io::Result<()> {
    write_page(units, opening, Tables::default(), out)
}

/// Writes the page of a library: its table, and the code of some of its functions, the units, behind their rows.
pub fn write_library(table: &Table<'_>, units: &[(Unit, Annotation)], out: &mut dyn Write) -> io::Result<()> {
    let library = Some(library::facts(table, units));
    write_page(units, Opening::Report, Tables { library, ..Tables::default() }, out)
}

/// Writes the page of a matrix: its pictures and tables, and the code of some of its cells, by their number, behind them.
pub fn write_matrix(
    matrix: &Matrix,
    metrics: &[Metric],
    pages: Vec<(usize, (Unit, Annotation))>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let matrix = Some(matrix::facts(matrix, metrics, &pages));
    let units: Vec<(Unit, Annotation)> = pages.into_iter().map(|(_, page)| page).collect();
    write_page(&units, Opening::Report, Tables { matrix, ..Tables::default() }, out)
}

/// What the page opens with where it is more than its kernels.
#[derive(Default)]
struct Tables {
    library: Option<library::LibraryFacts>,
    matrix: Option<matrix::MatrixFacts>,
}

fn write_page(units: &[(Unit, Annotation)], opening: Opening, tables: Tables, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"ptxinspect {}\">\n<title>ptxinspect</title>\n<style>\n{}{STYLE}</style>\n</head>\n<body>\n{BODY}",
        env!("CARGO_PKG_VERSION"),
        page::switched_look(),
    )?;
    data::write(units, opening, tables, out)?;
    out.write_all(b"<script>\n(() => {\n")?;
    for part in PROGRAM {
        out.write_all(part.as_bytes())?;
    }
    out.write_all(b"})();\n</script>\n</body>\n</html>\n")
}
