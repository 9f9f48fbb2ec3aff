//! The baseline file: sorted, a kernel in a group of lines, the same bytes for the same figures on every machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Deserialize;
use serde_json::Value;

use super::figures::{KernelFigures, UnitFigures};
use super::metric::{Figures, Metric};
use crate::report::LoopFigures;

/// The name and version of the file's shape.
pub const LOCK_SCHEMA: &str = "ptxinspect.lock/1";

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// By input, architecture and ptxas.
    pub units: Vec<UnitFigures>,
}

/// Why a baseline cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// Not JSON, or not of this shape.
    #[error("it is not a baseline: {0}")]
    Shape(String),
    /// Another version's.
    #[error("its schema is '{found}', this ptxinspect knows '{LOCK_SCHEMA}': another version of ptxinspect wrote it")]
    Schema {
        /// What it says.
        found: String,
    },
    /// The same thing twice.
    #[error("{0} is recorded twice: a merge gone wrong? Remove one of the two")]
    Twice(String),
    /// A figure that is none.
    #[error("{place}: '{key}' is {found}: expected {expected}")]
    Field {
        /// Unit and kernel.
        place: String,
        /// The key.
        key: String,
        /// What is there.
        found: String,
        /// What should be.
        expected: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUnit {
    input: String,
    arch: String,
    ptxas: Option<String>,
    flags: Vec<String>,
    source: Option<String>,
    not_understood: u64,
    advisories: BTreeMap<String, u64>,
    kernels: Vec<serde_json::Map<String, Value>>,
}

impl Baseline {
    /// Reads the file's text. Strict: what it does not know it does not guess.
    pub fn parse(text: &str) -> Result<Baseline, BaselineError> {
        let shape = |error: serde_json::Error| BaselineError::Shape(error.to_string());
        let mut value: Value = serde_json::from_str(text).map_err(shape)?;
        match value.get("schema").and_then(Value::as_str) {
            Some(LOCK_SCHEMA) => {}
            Some(found) => return Err(BaselineError::Schema { found: found.to_owned() }),
            None => return Err(BaselineError::Shape("it has no \"schema\"".to_owned())),
        }
        let units = value.get_mut("units").map(Value::take).unwrap_or(Value::Null);
        let units: Vec<RawUnit> = serde_json::from_value(units).map_err(shape)?;
        let units = units.into_iter().map(unit).collect::<Result<Vec<_>, _>>()?;
        let mut seen = BTreeSet::new();
        for unit in &units {
            if !seen.insert((&unit.input, &unit.arch, &unit.ptxas)) {
                return Err(BaselineError::Twice(place(unit)));
            }
        }
        Ok(Baseline { units })
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut units: Vec<&UnitFigures> = self.units.iter().collect();
        units.sort_by(|a, b| (&a.input, &a.arch, &a.ptxas).cmp(&(&b.input, &b.arch, &b.ptxas)));
        let mut text = format!("{{\n  \"schema\": {},\n  \"units\": [", json(LOCK_SCHEMA));
        for (at, unit) in units.iter().enumerate() {
            text.push_str(if at == 0 { "\n" } else { ",\n" });
            write_unit(unit, &mut text);
        }
        text.push_str(if units.is_empty() { "]\n}\n" } else { "\n  ]\n}\n" });
        text
    }

    /// The lines of one kernel as the file has them: what a patch would put in.
    pub fn kernel_text(kernel: &KernelFigures) -> String {
        let mut text = String::new();
        write_kernel(kernel, &mut text);
        text
    }
}

fn json(text: &str) -> String {
    Value::from(text).to_string()
}

fn option(text: Option<&str>) -> String {
    text.map_or("null".to_owned(), json)
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let pairs: Vec<String> = counts.iter().map(|(code, count)| format!("{}: {count}", json(code))).collect();
    format!("{{{}}}", pairs.join(", "))
}

fn write_unit(unit: &UnitFigures, text: &mut String) {
    let flags: Vec<String> = unit.flags.iter().map(|flag| json(flag)).collect();
    let _ = writeln!(text, "    {{\n      \"input\": {},", json(&unit.input));
    let _ = writeln!(text, "      \"arch\": {}, \"ptxas\": {},", json(&unit.arch), option(unit.ptxas.as_deref()));
    let _ = writeln!(text, "      \"flags\": [{}],", flags.join(", "));
    let _ = writeln!(text, "      \"source\": {},", option(unit.source.as_deref()));
    let (unknown, advisories) = (unit.not_understood, counts(&unit.advisories));
    let _ = writeln!(text, "      \"not_understood\": {unknown}, \"advisories\": {advisories},");
    text.push_str("      \"kernels\": [");
    for (at, kernel) in unit.kernels.iter().enumerate() {
        text.push_str(if at == 0 { "\n" } else { ",\n" });
        write_kernel(kernel, text);
    }
    text.push_str(if unit.kernels.is_empty() { "]\n    }" } else { "\n      ]\n    }" });
}

/// Which figures share a line.
const LINES: [&[Metric]; 3] = [
    &[Metric::Registers, Metric::PeakLive, Metric::WarpsPerSm],
    &[Metric::SpillStoreBytes, Metric::SpillLoadBytes, Metric::SpillInstructions, Metric::StackBytes],
    &[Metric::SmemBytes, Metric::Barriers, Metric::Instructions, Metric::CodeBytes],
];

fn write_kernel(kernel: &KernelFigures, text: &mut String) {
    let _ = write!(text, "        {{\n          \"name\": {},", json(&kernel.name));
    if let Some(within) = &kernel.within {
        let _ = write!(text, "\n          \"within\": {},", json(within));
    }
    for line in LINES {
        text.push_str("\n         ");
        for metric in line {
            let value = kernel.figures.get(*metric).map_or("null".to_owned(), |value| value.to_string());
            let _ = write!(text, " \"{metric}\": {value},");
        }
    }
    // An estimate is recorded where it was asked for.
    if let Some(cycles) = kernel.figures.get(Metric::LoopCycles) {
        let _ = write!(text, "\n          \"{}\": {cycles},", Metric::LoopCycles);
    }
    if !kernel.loops.is_empty() {
        let loops: Vec<String> = kernel.loops.iter().map(loop_text).collect();
        let _ = write!(text, "\n          \"loops\": [\n            {}\n          ],", loops.join(",\n            "));
    }
    let _ = write!(text, "\n          \"setmaxnreg\": {},", option(kernel.setmaxnreg.as_deref()));
    let (advisories, findings) = (counts(&kernel.advisories), counts(&kernel.findings));
    let _ = write!(text, "\n          \"advisories\": {advisories}, \"findings\": {findings}\n        }}");
}

/// A loop, on a line of its own.
fn loop_text(found: &LoopFigures) -> String {
    let LoopFigures { ptx_line, depth, shape, hottest, loop_cycles } = found;
    let line = ptx_line.map_or("null".to_owned(), |line| line.to_string());
    let shape = json(shape);
    format!(
        "{{ \"ptx_line\": {line}, \"depth\": {depth}, \"shape\": {shape}, \"hottest\": {hottest}, \
         \"loop_cycles\": {loop_cycles} }}"
    )
}

fn place(unit: &UnitFigures) -> String {
    let ptxas = unit.ptxas.as_ref().map(|version| format!(" with ptxas {version}")).unwrap_or_default();
    format!("{} for {}{ptxas}", unit.input, unit.arch)
}

fn unit(raw: RawUnit) -> Result<UnitFigures, BaselineError> {
    let mut unit = UnitFigures {
        input: raw.input,
        arch: raw.arch,
        ptxas: raw.ptxas,
        flags: raw.flags,
        source: raw.source,
        not_understood: raw.not_understood,
        advisories: raw.advisories,
        kernels: Vec::new(),
    };
    let at = place(&unit);
    let mut seen = BTreeSet::new();
    for raw in raw.kernels {
        let kernel = kernel(raw, &at)?;
        if !seen.insert((kernel.name.clone(), kernel.within.clone())) {
            return Err(BaselineError::Twice(format!("{} of {at}", kernel.name)));
        }
        unit.kernels.push(kernel);
    }
    Ok(unit)
}

fn kernel(raw: serde_json::Map<String, Value>, at: &str) -> Result<KernelFigures, BaselineError> {
    let mut kernel = KernelFigures::default();
    let mut figures = Figures::default();
    let Some(Value::String(name)) = raw.get("name") else {
        return Err(BaselineError::Shape(format!("a kernel of {at} has no \"name\"")));
    };
    kernel.name.clone_from(name);
    let name = kernel.name.clone();
    for (key, value) in raw {
        let wrong = |expected| BaselineError::Field {
            place: format!("{at}, {name}"),
            key: key.clone(),
            found: value.to_string(),
            expected,
        };
        let text = || match &value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            _ => Err(wrong("a string or null")),
        };
        let map = || serde_json::from_value(value.clone()).map_err(|_| wrong("an object of counts"));
        match key.as_str() {
            "name" => {}
            "within" => kernel.within = text()?,
            "setmaxnreg" => kernel.setmaxnreg = text()?,
            "advisories" => kernel.advisories = map()?,
            "findings" => kernel.findings = map()?,
            "loops" => {
                kernel.loops = serde_json::from_value(value.clone())
                    .map_err(|_| wrong("an array of loops: ptx_line, depth, shape, hottest, loop_cycles"))?;
            }
            key => {
                let metric: Metric = key
                    .parse()
                    .map_err(|_| wrong("a metric of this version: was it written by a newer ptxinspect?"))?;
                match &value {
                    Value::Null => {}
                    value => figures.set(metric, Some(value.as_u64().ok_or_else(|| wrong("a whole number or null"))?)),
                }
            }
        }
    }
    kernel.figures = figures;
    Ok(kernel)
}
