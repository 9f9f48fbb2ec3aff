//! mbarriers: every instruction on one, by object where the address tells.
//!
//! An object that is chosen by an index which is not known is one of an array: the constant part of its address says which array.

use crate::base::Line;
use crate::ptx::{Bulk, CpAsync, MbarrierAction, Operand, Operation, Shape, Tcgen05};
use crate::simt::{AddressSets, Site, SiteId, Value, Variation, Warps};

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

/// Where in a variable an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// So many bytes from its start.
    At(i64),
    /// In an array that starts there.
    Element(i64),
    /// Anywhere.
    Unknown,
}

/// An instruction on an mbarrier.
#[derive(Clone, Debug)]
pub struct MbarrierSite {
    /// Its place among the instructions.
    pub index: SiteId,
    /// Its line.
    pub line: Line,
    /// What it does.
    pub act: Act,
    /// The variable that the object is in; none when the address does not tell.
    pub variable: Option<u32>,
    /// Where in it.
    pub place: Place,
    /// Every place that it can have, ascending; none where that is not known.
    pub places: Option<Vec<i64>>,
    /// Count, bytes or parity, where constant.
    pub argument: Option<u64>,
    /// Threads that may run it.
    pub threads: Option<u32>,
}

impl MbarrierSite {
    /// `full`, `full+8`, `full+0…24` for any of four, `full+0,64` for either of two, `full+64[?]`, `full+?`; none when the address does not
    /// tell.
    pub fn object(&self, warps: &Warps<'_>) -> Option<String> {
        let variable = warps.values.variables.get(self.variable? as usize)?;
        if let Some(runs) = self.runs() {
            let text = |(first, last): &(i64, i64)| {
                if first == last { first.to_string() } else { format!("{first}…{last}") }
            };
            return Some(format!("{variable}+{}", runs.iter().map(text).collect::<Vec<_>>().join(",")));
        }
        Some(match self.place {
            Place::At(0) => variable.clone(),
            Place::At(offset) => format!("{variable}+{offset}"),
            Place::Element(0) => format!("{variable}[?]"),
            Place::Element(base) => format!("{variable}+{base}[?]"),
            Place::Unknown => format!("{variable}+?"),
        })
    }
}

/// Bytes of an mbarrier.
const BYTES: i64 = 8;
/// Runs of objects that are named one by one.
const MAX_RUNS: usize = 4;

impl MbarrierSite {
    /// The first and the last of objects side by side, where it can be any of several: a few such runs.
    fn runs(&self) -> Option<Vec<(i64, i64)>> {
        let places = self.places.as_deref().filter(|places| places.len() > 1)?;
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for &place in places {
            match runs.last_mut() {
                Some((_, last)) if place.checked_sub(*last) == Some(BYTES) => *last = place,
                _ => runs.push((place, place)),
            }
        }
        (runs.len() <= MAX_RUNS).then_some(runs)
    }
}

/// Copies and commits name the object last.
fn last_address<'a>(site: &Site<'a>) -> Option<Operand<'a>> {
    let is_address = |operand: &Operand<'_>| matches!(operand.shape(), Shape::Address(_));
    site.located.instruction.operands().filter(is_address).last()
}

/// Every instruction on an mbarrier, in order.
pub fn sites(warps: &Warps<'_>) -> Vec<MbarrierSite> {
    let mut found = Vec::new();
    let mut places = AddressSets::new(&warps.graph, &warps.values, &warps.reach);
    for (index, site) in warps.graph.sites.iter_enumerated() {
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
                (Act::Complete, last_address(site), None)
            }
            Operation::Tcgen05 { action: Tcgen05::Commit, .. } | Operation::CpAsync(CpAsync::MbarrierArrive) => {
                (Act::AsyncArrive, last_address(site), None)
            }
            // `st.async`, `red.async`, `clusterlaunchcontrol.try_cancel`
            _ if opcode.contains("mbarrier::complete_tx") => (Act::Complete, last_address(site), None),
            // Other instructions of newer ISAs may complete on one too.
            _ if opcode.contains("mbarrier::") => (Act::Other, last_address(site), None),
            _ => continue,
        };
        let value = |operand| warps.values.operand(&warps.graph, index, operand);
        let operand = address;
        let address = address.map(value).unwrap_or(Value::Unknown(Variation::Lane));
        let place = match (&address, address.lowest()) {
            (Value::Address { .. }, Some(offset)) => Place::At(offset),
            (_, Some(base)) => Place::Element(base),
            (_, None) => Place::Unknown,
        };
        let (place, places) = match (place, operand) {
            (Place::At(offset), _) => (place, Some(vec![offset])),
            (_, Some(operand)) if address.variable().is_some() => match places.operand(index, operand) {
                Some(found) if found.len() == 1 => (found.first().map_or(place, |only| Place::At(*only)), Some(found)),
                found => (place, found),
            },
            _ => (place, None),
        };
        let argument = argument.and_then(|argument| value(argument).constant());
        let (line, threads) = (site.line(), warps.count_at(index));
        let variable = address.variable();
        found.push(MbarrierSite { index, line, act, variable, place, places, argument, threads });
    }
    found
}
