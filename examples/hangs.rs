//! Does a kernel hang, and who waits for whom? It needs no ptxas. `cargo run --example hangs -- kernel.ptx`

use std::path::Path;

use ptxinspect::{Error, Options, Source, timeline};

/// The kernels' barriers, executed and drawn.
pub fn run(path: &Path) -> Result<String, Error> {
    let timelines = timeline(&Source::from(path), &Options::default(), Some(80))?;
    Ok(timelines.to_text())
}

#[allow(dead_code)]
fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "testdata/ptx/hopper_warp_specialised.ptx".to_owned());
    print!("{}", run(Path::new(&path))?);
    Ok(())
}
