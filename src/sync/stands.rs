//! Where warps stand when nobody can go on: the rows of a witness, in numbers and in words.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::execute::{Awaited, Stuck, Wait};
use crate::base::Line;
use crate::base::figures::{thousands, warps};
use crate::ptx::Module;
use crate::roles::Role;

/// Kinds of what can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A phase of an mbarrier.
    Mbarrier,
    /// A round of a named barrier.
    Barrier,
    /// The cluster barrier.
    Cluster,
    /// Registers of the pool.
    Registers,
    /// Columns of tensor memory.
    Columns,
    /// Other lanes of the warp.
    Lanes,
}

impl From<Wait> for Kind {
    fn from(wait: Wait) -> Kind {
        match wait {
            Wait::Named { .. } => Kind::Barrier,
            Wait::Mbarrier { .. } => Kind::Mbarrier,
            Wait::Cluster { .. } => Kind::Cluster,
            Wait::Registers { .. } => Kind::Registers,
            Wait::Columns { .. } => Kind::Columns,
            Wait::Lanes { .. } | Wait::Warpgroup => Kind::Lanes,
        }
    }
}

/// Warps that stand at one place and wait for one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stands {
    /// What they are called by what they do; null where all warps do the same, or these are of several roles.
    pub role: Option<String>,
    /// Which warps of the block.
    pub warps: Vec<u32>,
    /// Which block of the cluster.
    pub block: u64,
    /// Where they stand.
    pub ptx_line: Line,
    /// What kind of thing they wait for.
    pub kind: Kind,
    /// For what: `full[2]`, `barrier 1`, `registers of the pool`, ….
    pub waits_for: String,
    /// Arrivals, threads, registers or columns that are there; null where nothing counts them.
    pub arrived: Option<u64>,
    /// How many are needed.
    pub expected: Option<u64>,
    /// Bytes that have come; null where none were announced.
    pub bytes: Option<i64>,
    /// Bytes that were announced.
    pub bytes_expected: Option<i64>,
    /// The phase or the round, from 0; null for what has none.
    pub phase: Option<u64>,
}

impl Stands {
    /// A group of warps, with the role that they play.
    pub fn of(stuck: &Stuck, module: &Module<'_>, roles: &[Role]) -> Stands {
        let Awaited { object, phase, arrived, bytes } = &stuck.awaited;
        Stands {
            role: role_of(&stuck.warps, roles).map(str::to_owned),
            warps: stuck.warps.clone(),
            block: stuck.rank,
            ptx_line: module.number_of(stuck.line),
            kind: stuck.wait.into(),
            waits_for: object.clone(),
            arrived: arrived.map(|(arrived, _)| arrived),
            expected: arrived.map(|(_, expected)| expected),
            bytes: bytes.map(|(bytes, _)| bytes),
            bytes_expected: bytes.map(|(_, announced)| announced),
            phase: *phase,
        }
    }

    /// `consumer (warps 4 to 11)`
    pub fn who(&self) -> String {
        let block = if self.block > 0 { format!(" of block {}", self.block) } else { String::new() };
        label(self.role.as_deref(), &self.warps) + &block
    }

    /// `phase 1 of full[2], 0 of 1 arrivals, 0 of 32,768 bytes`
    pub fn what(&self) -> String {
        let mut text = match (self.kind, self.phase) {
            (Kind::Mbarrier, Some(phase)) => format!("phase {phase} of {}", self.waits_for),
            _ => self.waits_for.clone(),
        };
        if let (Some(arrived), Some(expected)) = (self.arrived, self.expected) {
            let (arrived, expected) = (thousands(arrived), thousands(expected));
            text += &match self.kind {
                Kind::Mbarrier => format!(", {arrived} of {expected} arrivals"),
                Kind::Registers => format!(", {expected} a thread asked for, {arrived} free beside its own"),
                Kind::Columns => format!(", {expected} asked for, {arrived} free"),
                Kind::Barrier | Kind::Cluster | Kind::Lanes => format!(", {arrived} of {expected} threads"),
            };
        } else if self.kind == Kind::Mbarrier {
            text += ", which nothing initialised";
        }
        if let (Some(bytes), Some(announced)) = (self.bytes, self.bytes_expected) {
            text += &match u64::try_from(bytes).ok().zip(u64::try_from(announced).ok()) {
                Some((bytes, announced)) => format!(", {} of {} bytes", thousands(bytes), thousands(announced)),
                None => format!(", {bytes} of {announced} bytes"),
            };
        }
        text
    }
}

impl fmt::Display for Stands {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.role.is_some() || self.warps.len() == 1 { "waits" } else { "wait" };
        write!(out, "{} {verb} at line {} for {}", self.who(), self.ptx_line, self.what())
    }
}

/// The role that some warps play, if it is one.
pub fn role_of<'r>(warps: &[u32], roles: &'r [Role]) -> Option<&'r str> {
    let of = |role: &&Role| {
        let members = role.threads.map(|threads| threads.warps()).unwrap_or_default();
        warps.iter().all(|warp| members.contains(warp))
    };
    roles.iter().find(of).map(|role| role.name.as_str())
}

/// `consumer (warps 4 to 11)`, `warps 4 to 11`
pub fn label(role: Option<&str>, members: &[u32]) -> String {
    match role {
        Some(role) => format!("{role} ({})", warps(members)),
        None => warps(members),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stands(kind: Kind, waits_for: &str) -> Stands {
        Stands {
            role: Some("consumer".to_owned()),
            warps: vec![4, 5, 6, 7],
            block: 0,
            ptx_line: Line(187),
            kind,
            waits_for: waits_for.to_owned(),
            arrived: Some(0),
            expected: Some(1),
            bytes: None,
            bytes_expected: None,
            phase: Some(1),
        }
    }

    #[test]
    fn a_row_of_a_witness_reads_as_a_sentence() {
        let full = Stands { bytes: Some(0), bytes_expected: Some(32_768), ..stands(Kind::Mbarrier, "full[2]") };
        assert_eq!(
            full.to_string(),
            "consumer (warps 4 to 7) waits at line 187 for phase 1 of full[2], 0 of 1 arrivals, 0 of 32,768 bytes"
        );
        let unknown = Stands { arrived: None, expected: None, ..stands(Kind::Mbarrier, "full[2]") };
        assert!(unknown.to_string().ends_with("for phase 1 of full[2], which nothing initialised"));
        let named = Stands { role: None, block: 1, expected: Some(64), ..stands(Kind::Barrier, "barrier 1") };
        assert_eq!(named.to_string(), "warps 4 to 7 of block 1 wait at line 187 for barrier 1, 0 of 64 threads");
        let pool = Stands { expected: Some(232), phase: None, ..stands(Kind::Registers, "registers of the pool") };
        assert!(pool.to_string().ends_with("registers of the pool, 232 a thread asked for, 0 free beside its own"));
        let alone = Stands { role: None, warps: vec![3], ..full };
        assert!(alone.to_string().starts_with("warp 3 waits at line 187"));
    }
}
