//! mbarriers: every instruction on one, by object where the address tells.

use super::check::{Check, Confidence};
use super::threads::{Value, Warps};
use crate::base::Line;
use crate::ptx::{Bulk, CpAsync, MbarrierAction, Operand, Operation, Shape, Tcgen05};

/// What is done to an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Initialised.
    Init,
    /// Arrived at.
    Arrive,
    /// Arrived at, with bytes to come.
    ArriveExpect,
    /// Told of bytes to come.
    Expect,
    /// Completed by a bulk copy, or by hand.
    Complete,
    /// Arrived at by `tcgen05.commit` or `cp.async.mbarrier.arrive`.
    AsyncArrive,
    /// Waited for.
    Wait,
    /// Made memory again.
    Inval,
    /// Anything else.
    Other,
}

impl Act {
    /// Its name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Act::Init => "init",
            Act::Arrive => "arrive",
            Act::ArriveExpect => "arrive.expect_tx",
            Act::Expect => "expect_tx",
            Act::Complete => "complete_tx",
            Act::AsyncArrive => "async arrive",
            Act::Wait => "wait",
            Act::Inval => "inval",
            Act::Other => "other",
        }
    }
}

/// An instruction on an mbarrier.
#[derive(Clone, Debug)]
pub struct MbarrierSite {
    /// Its line.
    pub line: Line,
    /// What it does.
    pub act: Act,
    /// The variable that the object is in; none when the address does not tell.
    pub variable: Option<u32>,
    /// Bytes from the variable's start; none when not known.
    pub offset: Option<i64>,
    /// Count, bytes or parity, where constant.
    pub argument: Option<u64>,
    /// Threads that may run it.
    pub threads: Option<u32>,
}

impl MbarrierSite {
    /// `full`, `full+8`, `full+?`; none when the address does not tell.
    pub fn object(&self, warps: &Warps<'_>) -> Option<String> {
        let variable = warps.values.variables.get(self.variable? as usize)?;
        Some(match self.offset {
            Some(0) => variable.clone(),
            Some(offset) => format!("{variable}+{offset}"),
            None => format!("{variable}+?"),
        })
    }
}

/// Every instruction on an mbarrier, in order.
pub fn sites(warps: &Warps<'_>) -> Vec<MbarrierSite> {
    let mut found = Vec::new();
    for (index, site) in warps.graph.sites.iter().enumerate() {
        let last_address = || {
            let is_address = |operand: &Operand<'_>| matches!(operand.shape(), Shape::Address(_));
            site.located.instruction.operands().filter(is_address).last()
        };
        let opcode = site.located.instruction.opcode();
        let (act, address, argument) = match site.operation {
            Operation::Mbarrier(mbarrier) => {
                let act = match mbarrier.action {
                    MbarrierAction::Init => Act::Init,
                    MbarrierAction::Inval => Act::Inval,
                    MbarrierAction::ExpectTx => Act::Expect,
                    MbarrierAction::CompleteTx => Act::Complete,
                    MbarrierAction::ArriveExpectTx => Act::ArriveExpect,
                    MbarrierAction::ArriveDrop if opcode.contains("expect_tx") => Act::ArriveExpect,
                    MbarrierAction::Arrive | MbarrierAction::ArriveDrop => Act::Arrive,
                    MbarrierAction::TestWait | MbarrierAction::TryWait => Act::Wait,
                    MbarrierAction::PendingCount => continue,
                    MbarrierAction::Other => Act::Other,
                };
                (act, mbarrier.address, mbarrier.argument)
            }
            // `[dst], [map, {…}], [mbar]{, mask}{, policy}` and `[dst], [src], size, [mbar]`
            Operation::Bulk(Bulk::Copy { .. } | Bulk::Reduce { .. }) if opcode.contains("mbarrier::complete_tx") => {
                (Act::Complete, last_address(), None)
            }
            Operation::Tcgen05 { action: Tcgen05::Commit, .. } | Operation::CpAsync(CpAsync::MbarrierArrive) => {
                (Act::AsyncArrive, last_address(), None)
            }
            // Other instructions of newer ISAs may complete on one too.
            _ if opcode.contains("mbarrier::") => (Act::Other, last_address(), None),
            _ => continue,
        };
        let value = |operand| warps.values.operand(&warps.graph, index, operand);
        let (variable, offset) = match address.map(value) {
            Some(Value::Address { variable, offset }) => (Some(variable), offset),
            Some(Value::Addresses { variable, .. }) => (Some(variable), None),
            _ => (None, None),
        };
        let argument = argument.and_then(|argument| value(argument).constant());
        found.push(MbarrierSite { line: site.line(), act, variable, offset, argument, threads: warps.count_at(index) });
    }
    found
}

/// Checks of mbarriers.
pub fn check(warps: &Warps<'_>, sites: &[MbarrierSite]) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    // One address that does not tell its object could be any of them.
    if sites.iter().any(|site| site.variable.is_none()) || warps.graph.calls || !warps.graph.complete {
        return checks;
    }
    let same = |a: &MbarrierSite, b: &MbarrierSite| {
        a.variable == b.variable && (a.offset == b.offset || a.offset.is_none() || b.offset.is_none())
    };
    let any =
        |site: &MbarrierSite, acts: &[Act]| sites.iter().any(|other| acts.contains(&other.act) && same(site, other));
    let arrivals = [Act::Arrive, Act::ArriveExpect, Act::AsyncArrive, Act::Other];
    for site in sites {
        let name = site.object(warps).unwrap_or_default();
        let found = match site.act {
            Act::Wait if !any(site, &[Act::Init, Act::Other]) => Some((
                "PI301",
                format!("waits for the mbarrier {name}, which nothing initialises"),
                "no mbarrier.init of the kernel has an address in this variable at this offset",
            )),
            Act::Wait if !any(site, &arrivals) => Some((
                "PI302",
                format!("waits for the mbarrier {name}, which nobody arrives at"),
                "no arrive, tcgen05.commit or cp.async.mbarrier.arrive of the kernel has this object: its phase never completes",
            )),
            Act::Complete if !any(site, &[Act::ArriveExpect, Act::Expect, Act::Other]) => Some((
                "PI303",
                format!("completes bytes on the mbarrier {name} that no expect_tx announces"),
                "without expect_tx the phase can complete before the bytes are there, or never",
            )),
            Act::Init if site.argument.is_some_and(|count| !(1..=0xf_ffff).contains(&count)) => Some((
                "PI304",
                format!("the mbarrier {name} is initialised with a count out of range"),
                "counts go from 1 to 1,048,575",
            )),
            _ => None,
        };
        let Some((code, message, reasoning)) = found else { continue };
        // One finding an object: its first line.
        if !checks.iter().any(|known| known.code == code && known.message == message) {
            let (line, reasoning) = (site.line, reasoning.to_owned());
            checks.push(Check { code, fatal: true, confidence: Confidence::Likely, line, message, reasoning });
        }
    }
    checks
}
