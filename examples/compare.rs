//! What did a change do to the code? `cargo run --example compare -- old.cubin new.cubin`

use std::path::Path;

use ptxinspect::{Error, Options, Source, diff};

/// The figures and the code that changed, for people.
pub fn run(before: &Path, after: &Path) -> Result<String, Error> {
    let options = Options::default();
    let difference = diff((&Source::from(before), &options), (&Source::from(after), &options))?;
    Ok(difference.to_text())
}

#[allow(dead_code)]
fn main() -> Result<(), Error> {
    let cubin = |at: usize, usual: &str| std::env::args().nth(at).unwrap_or_else(|| usual.to_owned());
    let before = cubin(1, "testdata/cubin/culprits-12.4-sm_80.cubin");
    let after = cubin(2, "testdata/cubin/culprits-12.9-sm_120.cubin");
    print!("{}", run(Path::new(&before), Path::new(&after))?);
    Ok(())
}
