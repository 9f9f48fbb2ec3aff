//! Collects what ptxinspect is measured with: cubins out of published libraries, and PTX compiled by several ptxas.
//!
//! In: names of Python packages, or folders of PTX and paths of ptxas. Out: a folder of files and a `MANIFEST.tsv` that says
//! how each was made. Nothing that it collects belongs into the repository; small recordings of our own PTX do.

mod compile;
mod fetch;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "corpus", about = "Collect cubins and compile PTX to measure ptxinspect with")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Download packages with pip and extract the cubins of their libraries
    Fetch {
        /// Names of packages, as pip takes them
        #[arg(required = true)]
        packages: Vec<String>,
        /// Folder to fill: <package>/<n>.<arch>.cubin and MANIFEST.tsv
        #[arg(long, short)]
        out: PathBuf,
        /// The extractor
        #[arg(long, default_value = "cuobjdump")]
        cuobjdump: PathBuf,
        /// The interpreter whose pip downloads
        #[arg(long, default_value = "python3")]
        python: PathBuf,
        /// Bytes of cubins to keep for one architecture of a package
        #[arg(long, default_value_t = 8 << 20)]
        limit: u64,
    },
    /// Compile PTX with each ptxas: cubin and log
    Compile {
        /// Files, or folders searched for *.ptx
        #[arg(required = true)]
        inputs: Vec<PathBuf>,
        /// Folder to fill: <ptxas version>/<input>.<arch>.{cubin,log} and MANIFEST.tsv
        #[arg(long, short)]
        out: PathBuf,
        /// A ptxas; give it again for each version
        #[arg(long, required = true)]
        ptxas: Vec<PathBuf>,
        /// Architectures instead of each file's own .target
        #[arg(long, value_delimiter = ',')]
        arch: Vec<String>,
        /// Further flags for ptxas
        #[arg(last = true)]
        flags: Vec<String>,
    },
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Fetch { packages, out, cuobjdump, python, limit } => {
            let source = fetch::Source { python, cuobjdump, limit };
            for package in &packages {
                source.fetch(package, &out)?;
            }
            Ok(())
        }
        Command::Compile { inputs, out, ptxas, arch, flags } => compile::compile(&inputs, &out, &ptxas, &arch, &flags),
    }
}
