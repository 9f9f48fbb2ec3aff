//! The command line: parse, run, return an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ptxinspect::cli::main()
}
