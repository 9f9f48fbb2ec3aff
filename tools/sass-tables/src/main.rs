//! Learns SASS encodings and effects by observing nvdisasm, and checks the tables against it.

mod effects;
mod live;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Learns the SASS tables from what nvdisasm prints, and checks them")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Learn which registers each instruction reads and writes.
    Effects(effects::Args),
    /// Write down cases for the tests of effects.
    RecordEffects(effects::RecordArgs),
    /// Compare live counts with nvdisasm's.
    Live(live::Args),
}

fn main() -> Result<()> {
    match Args::parse().command {
        Command::Effects(args) => effects::run(&args),
        Command::RecordEffects(args) => effects::record(&args),
        Command::Live(args) => live::run(&args),
    }
}
