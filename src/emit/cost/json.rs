//! What loops cost, for programs: `docs/schema/cost-v1.schema.json`.

use std::io::{self, Write};

use serde::Serialize;

use crate::report::access::AccessFacts;
use crate::report::{HazardFacts, LoopCost, Unit};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    units: Vec<CostUnit<'a>>,
}

#[derive(Serialize)]
struct CostUnit<'a> {
    input: &'a str,
    arch: Option<&'a str>,
    error: Option<&'a str>,
    kernels: Vec<CostKernel<'a>>,
}

#[derive(Serialize)]
struct CostKernel<'a> {
    name: &'a str,
    demangled: Option<&'a str>,
    loops: Option<&'a [LoopCost]>,
    hazards: Option<&'a HazardFacts>,
    accesses: Option<&'a AccessFacts>,
}

/// Writes the costs of all kernels.
pub fn write_json(units: &[Unit], out: &mut dyn Write) -> io::Result<()> {
    let units = units.iter().map(|unit| CostUnit {
        input: &unit.input,
        arch: unit.arch.as_deref(),
        error: unit.error.as_ref().map(|error| error.message.as_str()),
        kernels: unit
            .kernels
            .iter()
            .map(|kernel| CostKernel {
                name: &kernel.name,
                demangled: kernel.demangled.as_deref(),
                loops: kernel.costs.as_deref(),
                hazards: kernel.hazards.as_ref(),
                accesses: kernel.accesses.as_ref(),
            })
            .collect(),
    });
    let document = Document { schema: "ptxinspect.cost/1", units: units.collect() };
    serde_json::to_writer_pretty(&mut *out, &document).map_err(io::Error::from)?;
    out.write_all(b"\n")
}
