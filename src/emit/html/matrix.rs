//! The table of a matrix as its page has it: every kernel's figures by architecture, ptxas and flags, and what the pictures show along.

use std::collections::HashMap;

use serde::Serialize;

use super::data::NAME;
use super::library::quoted;
use crate::emit::matrix::{bisection, changes, failures, head, kernel, notes};
use crate::emit::text::count;
use crate::gate::Metric;
use crate::matrix::{Cell, Matrix};
use crate::report::annotation::Annotation;
use crate::report::{Unit, demangle, distinct};

/// What the page's tables and pictures are made of.
#[derive(Serialize)]
pub(super) struct MatrixFacts {
    title: String,
    summary: String,
    /// The titles of the figures.
    metrics: Vec<&'static str>,
    /// What cells differ in: the titles of a cell's `place`.
    dimensions: Vec<String>,
    kernels: Vec<KernelTable>,
    /// Cells, and why they have no figures.
    failures: Vec<(String, String)>,
    bisections: Vec<(String, String)>,
    /// What there is to know of the figures.
    notes: Vec<String>,
    /// What each unit with code is called beside the others.
    units: Vec<String>,
}

/// One kernel: its cells, and the lines of its pictures.
#[derive(Serialize)]
struct KernelTable {
    input: String,
    name: String,
    full: String,
    cells: Vec<CellFacts>,
    /// What the pictures go along; none where there is but one cell.
    axis: Option<Axis>,
    changes: Vec<String>,
}

#[derive(Serialize)]
struct CellFacts {
    /// Where it stands in each dimension.
    place: Vec<String>,
    /// The same in words.
    label: String,
    /// A figure a metric; none where it is not known.
    values: Vec<Option<u64>>,
    /// Why it has no figures at all, in two words: it cannot be compiled, or the kernel is not there.
    lacks: Option<&'static str>,
    /// What there is to say of it: what the compiler said, or which directive ruled.
    note: Option<String>,
    /// Its number among the functions whose code is in the page.
    k: Option<usize>,
    /// What makes a page of it.
    command: String,
}

#[derive(Serialize)]
struct Axis {
    title: String,
    ticks: Vec<String>,
    lines: Vec<AxisLine>,
}

/// Cells that differ in the axis alone: a line of the picture.
#[derive(Serialize)]
struct AxisLine {
    label: String,
    /// The cell at each tick.
    cells: Vec<Option<usize>>,
}

/// The value of a cell in every dimension there is: architecture, ptxas, each swept flag.
fn coordinates(cell: &Cell) -> Vec<(String, String)> {
    let swept = cell.flags.iter().filter_map(|flag| flag.trim_start_matches('-').split_once('='));
    [("arch", cell.arch.as_str()), ("ptxas", cell.ptxas.as_str())]
        .into_iter()
        .chain(swept)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The dimensions that have more than one value, the swept flags last.
fn dimensions(cells: &[Vec<(String, String)>]) -> Vec<String> {
    let mut names: Vec<&String> = Vec::new();
    let mut values: HashMap<&String, Vec<&String>> = HashMap::new();
    for (name, value) in cells.iter().flatten() {
        let known = values.entry(name).or_default();
        if known.is_empty() {
            names.push(name);
        }
        if known.first() != Some(&value) {
            known.push(value);
        }
    }
    names.retain(|name| values.get(name).is_some_and(|values| values.len() > 1));
    names.into_iter().cloned().collect()
}

/// Where a cell stands, in words.
fn label<'a>(place: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let one = |(name, value): (&String, &String)| match name.as_str() {
        "arch" => value.clone(),
        "ptxas" => format!("ptxas {value}"),
        name => format!("{name}={value}"),
    };
    place.map(one).collect::<Vec<_>>().join(" · ")
}

/// The lines of a kernel's pictures, along the last swept flag, or the versions, or the architectures.
fn axis(places: &[Vec<String>], dimensions: &[String]) -> Option<Axis> {
    let along = match dimensions.last()?.as_str() {
        "ptxas" | "arch" => dimensions.iter().position(|name| name == "ptxas").unwrap_or(0),
        _ => dimensions.len() - 1,
    };
    let mut ticks: Vec<String> = Vec::new();
    let mut at_tick: HashMap<&str, usize> = HashMap::new();
    for place in places {
        let Some(value) = place.get(along) else { continue };
        at_tick.entry(value).or_insert_with(|| {
            ticks.push(value.clone());
            ticks.len() - 1
        });
    }
    let mut lines: Vec<AxisLine> = Vec::new();
    let mut at_line: HashMap<String, usize> = HashMap::new();
    for (number, place) in places.iter().enumerate() {
        let others = dimensions.iter().zip(place).enumerate().filter(|(at, _)| *at != along);
        let line = *at_line.entry(label(others.map(|(_, coordinate)| coordinate))).or_insert_with_key(|label| {
            lines.push(AxisLine { label: label.clone(), cells: vec![None; ticks.len()] });
            lines.len() - 1
        });
        let tick = place.get(along).and_then(|value| at_tick.get(value.as_str()));
        if let (Some(line), Some(&tick)) = (lines.get_mut(line), tick)
            && let Some(cell) = line.cells.get_mut(tick)
        {
            *cell = Some(number);
        }
    }
    Some(Axis { title: dimensions.get(along)?.clone(), ticks, lines })
}

/// What makes a page of a kernel as a cell has it.
fn command(cell: &Cell, name: &str) -> String {
    let mut words = vec!["ptxinspect".to_owned(), "annotate".to_owned(), quoted(&cell.input)];
    words.extend(["--arch".to_owned(), quoted(&cell.arch)]);
    words.extend(cell.asked.iter().flat_map(|asked| ["--ptxas".to_owned(), quoted(asked)]));
    words.extend(["--kernel".to_owned(), quoted(name), "--format html -o kernel.html".to_owned()]);
    if !cell.flags.is_empty() {
        words.push("--".to_owned());
        words.extend(cell.flags.iter().map(|flag| quoted(flag)));
    }
    words.join(" ")
}

/// What the page shows of a matrix; `pages` are the cells whose code it holds, by their number.
pub(super) fn facts(matrix: &Matrix, metrics: &[Metric], pages: &[(usize, (Unit, Annotation))]) -> MatrixFacts {
    let all: Vec<Vec<(String, String)>> = matrix.cells.iter().map(coordinates).collect();
    let dimensions = dimensions(&all);
    let place = |at: usize| -> Vec<String> {
        let of = |name: &String| all.get(at)?.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        dimensions.iter().map(|name| of(name).unwrap_or_default()).collect()
    };
    let mut numbers: HashMap<(usize, &str), usize> = HashMap::new();
    let functions = pages.iter().flat_map(|(at, (unit, _))| unit.kernels.iter().map(move |kernel| (*at, kernel)));
    for (number, (at, kernel)) in functions.enumerate() {
        numbers.entry((at, &kernel.name)).or_insert(number);
    }
    let names = matrix.kernels();
    let full: Vec<String> =
        names.iter().map(|(_, name)| demangle(name).unwrap_or_else(|| (*name).to_owned())).collect();
    let short = distinct(&full.iter().map(String::as_str).collect::<Vec<_>>(), NAME);
    let notes = notes(matrix, &short, metrics);
    let table = |(((input, name), full), short): (((&str, &str), String), String)| {
        let (at, cells): (Vec<usize>, Vec<&Cell>) =
            matrix.cells.iter().enumerate().filter(|(_, cell)| cell.input == input).unzip();
        let places: Vec<Vec<String>> = at.iter().map(|at| place(*at)).collect();
        let axis = axis(&places, &dimensions);
        let one = |((at, cell), place): ((&usize, &&Cell), Vec<String>)| {
            let found = kernel(cell, name);
            CellFacts {
                label: label(dimensions.iter().zip(&place)),
                place,
                values: metrics.iter().map(|metric| found.and_then(|found| found.get(*metric))).collect(),
                lacks: match (&cell.error, found) {
                    (Some(_), _) => Some("cannot compile"),
                    (None, None) => Some("not there"),
                    (None, Some(_)) => None,
                },
                note: match (&cell.error, found) {
                    (Some(error), _) => Some(error.clone()),
                    (None, found) => {
                        found.and_then(|found| found.ruled_by.as_ref()).map(|directive| format!("{directive} rules"))
                    }
                },
                k: numbers.get(&(*at, name)).copied(),
                command: command(cell, name),
            }
        };
        KernelTable {
            input: input.to_owned(),
            name: short,
            full,
            changes: changes(matrix, name),
            cells: at.iter().zip(&cells).zip(places).map(one).collect(),
            axis,
        }
    };
    let tables: Vec<KernelTable> = names.into_iter().zip(full).zip(short).map(table).collect();
    let mut inputs: Vec<&str> = matrix.cells.iter().map(|cell| &*cell.input).collect();
    inputs.dedup();
    MatrixFacts {
        title: inputs.join(", "),
        summary: summary(matrix, tables.len(), &all, &dimensions),
        metrics: metrics.iter().map(|metric| head(*metric)).collect(),
        kernels: tables,
        failures: failures(matrix).into_iter().map(|(reason, places)| (places, reason.to_owned())).collect(),
        bisections: matrix
            .bisections
            .iter()
            .map(|found| {
                (
                    found.kernel.clone(),
                    format!("{}; {} of {} versions run", bisection(found), found.runs, found.versions),
                )
            })
            .collect(),
        notes,
        units: pages.iter().map(|(at, _)| label(dimensions.iter().zip(&place(*at)))).collect(),
        dimensions,
    }
}

/// How many cells, and what all of them have in common.
fn summary(matrix: &Matrix, kernels: usize, all: &[Vec<(String, String)>], dimensions: &[String]) -> String {
    let mut parts = vec![count(kernels as u64, "kernel"), count(matrix.cells.len() as u64, "build")];
    let same = all.first().into_iter().flatten().filter(|(name, _)| !dimensions.contains(name));
    parts.extend(same.map(|(name, value)| label(std::iter::once((name, value)))));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(arch: &str, ptxas: &str, flags: &[&str]) -> Cell {
        Cell {
            input: "k.ptx".to_owned(),
            arch: arch.to_owned(),
            ptxas: ptxas.to_owned(),
            ptxas_path: None,
            setting: String::new(),
            overrides: false,
            error: None,
            failed: false,
            asked: Some(ptxas.to_owned()),
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            kernels: Vec::new(),
        }
    }

    fn axis_of(cells: &[Cell]) -> Axis {
        let all: Vec<_> = cells.iter().map(coordinates).collect();
        let names = dimensions(&all);
        let at = |cell: &Vec<(String, String)>| {
            let of = |name: &String| cell.iter().find(|(known, _)| known == name).unwrap().1.clone();
            names.iter().map(of).collect::<Vec<_>>()
        };
        axis(&all.iter().map(at).collect::<Vec<_>>(), &names).unwrap()
    }

    #[test]
    fn pictures_go_along_the_last_sweep_then_the_versions_then_the_architectures() {
        let swept: Vec<Cell> = ["sm_90", "sm_100"]
            .iter()
            .flat_map(|arch| ["64", "72"].map(|value| cell(arch, "13.4", &[&format!("--maxrregcount={value}")])))
            .collect();
        let along = axis_of(&swept);
        assert_eq!((along.title.as_str(), along.ticks), ("maxrregcount", vec!["64".to_owned(), "72".to_owned()]));
        let lines: Vec<_> = along.lines.iter().map(|line| (line.label.as_str(), line.cells.clone())).collect();
        assert_eq!(lines, [("sm_90", vec![Some(0), Some(1)]), ("sm_100", vec![Some(2), Some(3)])]);
        let versions = axis_of(&[cell("sm_90", "12.9", &[]), cell("sm_90", "13.4", &[]), cell("sm_100", "13.4", &[])]);
        assert_eq!((versions.title.as_str(), versions.lines.len()), ("ptxas", 2));
        assert_eq!(versions.lines[1].cells, [None, Some(2)]);
        assert_eq!(axis_of(&[cell("sm_90", "13.4", &[]), cell("sm_100", "13.4", &[])]).title, "arch");
    }

    #[test]
    fn the_command_makes_the_same_cell() {
        let cell = cell("sm_90a", "13.4", &["--maxrregcount=64", "--override-directive-values"]);
        assert_eq!(
            command(&cell, "f<a b>"),
            "ptxinspect annotate k.ptx --arch sm_90a --ptxas 13.4 --kernel 'f<a b>' --format html -o kernel.html \
             -- --maxrregcount=64 --override-directive-values"
        );
    }
}
