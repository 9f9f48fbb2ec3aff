//! Where did the registers of a cubin's kernels go? `cargo run --example report -- kernel.cubin`

use std::path::Path;

use ptxinspect::{Error, Options, Source, inspect};

/// One line a kernel: registers, live registers, spills, blocks per SM.
pub fn run(path: &Path) -> Result<Vec<String>, Error> {
    let options = Options { threads: Some(128), ..Options::default() };
    let report = inspect(&Source::from(path), &options)?;
    let rows = report.kernels().map(|kernel| {
        let number = |figure: Option<u32>| figure.map_or_else(|| "?".to_owned(), |figure| figure.to_string());
        let live = kernel.pressure.as_ref().map(|pressure| pressure.gpr.peak);
        let spills = kernel.spills.as_ref().map(Vec::len).and_then(|spills| u32::try_from(spills).ok());
        let blocks = kernel.occupancy.as_ref().and_then(|occupancy| occupancy.blocks_per_sm);
        let [registers, live, spills, blocks] = [kernel.resources.registers, live, spills, blocks].map(number);
        format!(
            "{}: {registers} registers, {live} live, {spills} spill instructions, {blocks} blocks an SM",
            kernel.name
        )
    });
    Ok(rows.collect())
}

#[allow(dead_code)]
fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "testdata/cubin/blackwell-13.4-sm_100a.cubin".to_owned());
    for row in run(Path::new(&path))? {
        println!("{row}");
    }
    Ok(())
}
