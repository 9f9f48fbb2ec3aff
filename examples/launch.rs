//! Which block sizes fill an SM best? `cargo run --example launch`

use ptxinspect::{Error, LaunchConfig, occupancy};

/// Threads of a block and the share of an SM's warps they keep, for a kernel with so many registers.
pub fn run(arch: &str, registers: u32) -> Result<Vec<(u32, f64)>, Error> {
    let sizes = [64, 128, 256, 512, 1024];
    let of_size = |threads: u32| {
        let launch = LaunchConfig { registers, threads, ..LaunchConfig::default() };
        Ok((threads, occupancy(arch, &launch)?.occupancy))
    };
    sizes.into_iter().map(of_size).collect()
}

#[allow(dead_code)]
fn main() -> Result<(), Error> {
    for (threads, share) in run("sm_90a", 96)? {
        println!("{threads:>4} threads: {:.1} %", share * 100.0);
    }
    Ok(())
}
