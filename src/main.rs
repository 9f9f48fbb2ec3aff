//! The command line: parse, run, return an exit code.

fn main() {}
