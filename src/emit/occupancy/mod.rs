//! Answers of the occupancy calculator: text for people, JSON lines for programs, and JSON lines that are asked and answered.

mod batch;
mod text;

use std::io::{self, Write};

use serde_json::json;

use crate::base::Arch;
use crate::registers::occupancy::{Launch, Occupancy, RegisterRange};

pub use batch::{Summary, batch};
pub use text::write as write_text;

/// The answer for one architecture.
pub struct Answer {
    /// The architecture.
    pub arch: Arch,
    /// How many blocks an SM holds, and what the next step takes.
    pub occupancy: Occupancy,
    /// The same over register counts.
    pub table: Vec<RegisterRange>,
}

/// The line a batch would answer with, and the table over register counts.
pub fn write_json(launch: &Launch, answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    let asked = [
        ("arch", json!(answer.arch.to_string())),
        ("registers", json!(launch.registers)),
        ("threads", json!(launch.threads)),
        ("smem", json!(launch.smem_static)),
        ("smem_dynamic", json!(launch.smem_dynamic)),
        ("barriers", json!(launch.barriers)),
        ("cluster", json!(launch.cluster)),
        ("tmem_columns", json!(launch.tmem_columns)),
        ("smem_mode", json!(launch.smem_mode)),
        ("carveout", json!(launch.carveout)),
    ];
    let mut line = b"{".to_vec();
    for (key, value) in &asked {
        batch::write_pair(&mut line, key, value)?;
    }
    batch::write_fields(&mut line, &answer.occupancy)?;
    batch::write_pair(&mut line, "table", &answer.table)?;
    batch::finish(&mut line);
    out.write_all(&line)
}
