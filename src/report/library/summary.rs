//! What all rows together say.

use std::collections::BTreeMap;

use serde::Serialize;

use super::row::{EntryFacts, Row, sm_number};
use crate::report::KernelKind;

/// Sums over a library.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Cubins that were read.
    pub cubins: u64,
    /// PTX texts that were passed over.
    pub ptx_not_compiled: u64,
    /// Entries of other kinds: LTO-IR, which cannot be analysed.
    pub others: u64,
    /// Kernels.
    pub kernels: u64,
    /// Device functions with a section of their own.
    pub device_functions: u64,
    /// By architecture, the oldest first.
    pub by_arch: Vec<ArchSummary>,
    /// Kernels by registers, in steps of 16.
    pub registers: Vec<Bucket>,
    /// What could not be read.
    pub errors: Vec<Failure>,
    /// Each kernel's registers count here until the end.
    #[serde(skip)]
    counts: BTreeMap<(u32, String), Counts>,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Where.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

/// The kernels of one architecture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ArchSummary {
    /// `sm_90a`.
    pub arch: String,
    /// Cubins.
    pub cubins: u64,
    /// Kernels.
    pub kernels: u64,
    /// Device functions with a section of their own.
    pub device_functions: u64,
    /// The median of the kernels' registers.
    pub registers_median: Option<u32>,
    /// The most registers of a kernel.
    pub registers_max: Option<u32>,
    /// The most vector registers alive at once.
    pub live_max: Option<u32>,
    /// Kernels that spill; null when none of them tells.
    pub spilling: Option<u64>,
    /// Kernels with a stack frame.
    pub with_stack: u64,
    /// Kernels with findings; null when none of them was checked.
    pub with_findings: Option<u64>,
    /// Kernels that were checked: those whose PTX is there.
    pub checked: u64,
    /// Instructions, padding left out, as far as they are 16 bytes each.
    pub instructions: u64,
    /// Words that are not known; null where no instruction was looked at.
    pub unknown: Option<u64>,
    /// Bytes of code.
    pub code_bytes: u64,
}

/// Kernels with so many registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// From.
    pub from: u32,
    /// To, included.
    pub to: u32,
    /// How many.
    pub kernels: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Counts {
    sum: ArchSummary,
    /// Kernels by registers: 0 to 255, and one more for anything above.
    registers: Vec<u64>,
}

/// Registers that share a bar of the histogram.
const STEP: usize = 16;
const MOST: usize = 256;

impl Summary {
    /// Counts a cubin and its rows.
    pub fn count(&mut self, entry: &EntryFacts, rows: &[Row]) {
        self.cubins += 1;
        let key = (sm_number(&entry.arch), entry.arch.to_string());
        let counts = self.counts.entry(key).or_insert_with(|| Counts {
            sum: ArchSummary { arch: entry.arch.to_string(), ..ArchSummary::default() },
            registers: vec![0; MOST + 1],
        });
        let sum = &mut counts.sum;
        sum.cubins += 1;
        for row in rows {
            sum.instructions += row.instructions.count().unwrap_or(0);
            if let Some(unknown) = row.instructions.unknown {
                *sum.unknown.get_or_insert(0) += unknown;
            }
            sum.code_bytes += row.resources.code_bytes;
            sum.live_max = sum.live_max.max(row.pressure.as_ref().map(|pressure| pressure.gpr.peak));
            if row.kind == KernelKind::Func {
                sum.device_functions += 1;
                self.device_functions += 1;
                continue;
            }
            self.kernels += 1;
            sum.kernels += 1;
            if let Some(spills) = row.spills {
                *sum.spilling.get_or_insert(0) += u64::from(spills.instructions > 0);
            }
            if let Some(findings) = row.finding_count() {
                *sum.with_findings.get_or_insert(0) += u64::from(findings > 0);
                sum.checked += 1;
            }
            sum.with_stack += u64::from(row.resources.stack_bytes.is_some_and(|bytes| bytes > 0));
            if let Some(registers) = row.resources.registers {
                sum.registers_max = sum.registers_max.max(Some(registers));
                if let Some(count) = counts.registers.get_mut((registers as usize).min(MOST)) {
                    *count += 1;
                }
            }
        }
    }

    /// Counts something that could not be read.
    pub fn fail(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.errors.push(Failure { path: path.into(), message: message.into() });
    }

    /// Works out what needs all rows.
    pub fn finish(&mut self) {
        let mut all = vec![0_u64; MOST + 1];
        self.by_arch = self
            .counts
            .values()
            .map(|counts| {
                for (total, count) in all.iter_mut().zip(&counts.registers) {
                    *total += count;
                }
                ArchSummary { registers_median: median(&counts.registers), ..counts.sum.clone() }
            })
            .collect();
        let bars = all.chunks(STEP).enumerate().map(|(at, bar)| Bucket {
            from: (at * STEP) as u32,
            to: (at * STEP + STEP - 1) as u32,
            kernels: bar.iter().sum(),
        });
        self.registers = bars.filter(|bar| bar.kernels > 0).collect();
    }
}

/// The lower median of a histogram.
fn median(histogram: &[u64]) -> Option<u32> {
    let total: u64 = histogram.iter().sum();
    let mut left = total.checked_sub(1)? / 2;
    for (registers, &count) in histogram.iter().enumerate() {
        match left.checked_sub(count) {
            Some(rest) => left = rest,
            None => return u32::try_from(registers).ok(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[0, 0, 0]), None);
        assert_eq!(median(&[0, 1, 0, 1]), Some(1));
        assert_eq!(median(&[0, 1, 1, 1]), Some(2));
        assert_eq!(median(&[3, 0, 1]), Some(0));
    }
}
