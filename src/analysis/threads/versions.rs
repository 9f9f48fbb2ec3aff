//! Which definition of a register an instruction reads.
//!
//! A register that is written once has one version. One that is written in several places has a version for each, and one for each
//! block in which different ones meet.

use std::collections::{HashMap, HashSet};

use super::graph::Graph;
use crate::ptx::Register;

/// Registers times blocks that are followed; beyond it a register has one version, whatever the place.
const MAX_STATES: usize = 1 << 23;
/// No definition has been seen.
const UNSET: u32 = u32::MAX;
/// The version of a register before its first definition.
const NEVER: u32 = 0;

/// Block, way out of it and version that comes along it.
pub type Coming = (u32, usize, u32);

/// A block in which versions of a register meet.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// What is read after it.
    pub version: u32,
    /// The block.
    pub block: u32,
    /// Block, way out of it and version that comes along it.
    pub from: Vec<Coming>,
}

/// Versions of the registers that an evaluation asks about.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    single: HashMap<Register, u32>,
    reads: HashMap<(u32, Register), u32>,
    writes: HashMap<(u32, Register), u32>,
    /// Where versions meet, by block.
    pub meetings: Vec<Meeting>,
    /// One more than the highest version.
    pub count: u32,
}

impl Versions {
    /// The version that an instruction reads.
    pub fn read(&self, site: usize, register: Register) -> Option<u32> {
        self.single.get(&register).or_else(|| self.reads.get(&(site as u32, register))).copied()
    }

    /// The version that an instruction writes.
    pub fn write(&self, site: usize, register: Register) -> Option<u32> {
        self.single.get(&register).or_else(|| self.writes.get(&(site as u32, register))).copied()
    }

    /// Whether a register has more versions than one.
    pub fn is_several(&self, register: Register) -> bool {
        !self.single.contains_key(&register)
    }

    /// Follows registers through the blocks. `definitions` are the instructions that write each.
    pub fn build(
        graph: &Graph<'_>,
        wanted: &HashSet<Register>,
        definitions: &HashMap<Register, Vec<usize>>,
    ) -> Versions {
        let mut found = Versions { count: NEVER + 1, ..Versions::default() };
        let mut several: Vec<Register> = Vec::new();
        let mut sorted: Vec<Register> = wanted.iter().copied().collect();
        sorted.sort_unstable();
        for register in sorted {
            if definitions.get(&register).is_some_and(|sites| sites.len() > 1) {
                several.push(register);
            } else {
                found.single.insert(register, found.count);
                found.count += 1;
            }
        }
        if several.len().saturating_mul(graph.blocks.len()) > MAX_STATES {
            for register in several.drain(..) {
                found.single.insert(register, found.count);
                found.count += 1;
            }
        }
        if !several.is_empty() {
            found.follow(graph, &several);
        }
        found
    }

    fn follow(&mut self, graph: &Graph<'_>, several: &[Register]) {
        let place: HashMap<Register, usize> =
            several.iter().enumerate().map(|(at, register)| (*register, at)).collect();
        // What each block reads and writes of these registers, in order: instruction, register, version or none for a read.
        let mut touched: Vec<Vec<(u32, usize, Option<u32>)>> = vec![Vec::new(); graph.blocks.len()];
        for (index, site) in graph.sites.iter().enumerate() {
            let Some(block) = touched.get_mut(site.block as usize) else { continue };
            let mut written = Vec::new();
            for used in graph.registers.of(&site.located) {
                let Some(&at) = place.get(&used.register) else { continue };
                // What a guarded write keeps is read as well.
                block.push((index as u32, at, None));
                if used.is_def {
                    written.push(at);
                }
            }
            if let Some((register, _)) = site.guard
                && let Some(&at) = place.get(&register)
            {
                block.push((index as u32, at, None));
            }
            for at in written {
                block.push((index as u32, at, Some(self.count)));
                self.writes.insert((index as u32, several[at]), self.count);
                self.count += 1;
            }
        }
        let width = several.len();
        let mut at_entry: Vec<Vec<u32>> = vec![vec![UNSET; width]; graph.blocks.len()];
        let mut meets: HashMap<(u32, usize), u32> = HashMap::new();
        if let Some(first) = at_entry.first_mut() {
            first.fill(NEVER);
        }
        let after = |entry: &[u32], block: usize| {
            let mut state = entry.to_vec();
            for (_, at, version) in touched.get(block).into_iter().flatten() {
                if let (Some(version), Some(slot)) = (version, state.get_mut(*at)) {
                    *slot = *version;
                }
            }
            state
        };
        let mut open = vec![0u32];
        while let Some(block) = open.pop() {
            let Some(entry) = at_entry.get(block as usize) else { continue };
            let exit = after(entry, block as usize);
            let Some(info) = graph.blocks.get(block as usize) else { continue };
            for edge in &info.successors {
                let Some(there) = at_entry.get_mut(edge.to as usize) else { continue };
                let mut changed = false;
                for (at, (slot, &coming)) in there.iter_mut().zip(&exit).enumerate() {
                    if *slot == coming || coming == UNSET || meets.get(&(edge.to, at)) == Some(slot) {
                        continue;
                    }
                    changed = true;
                    if *slot == UNSET {
                        *slot = coming;
                    } else {
                        *slot = self.count;
                        meets.insert((edge.to, at), self.count);
                        self.count += 1;
                    }
                }
                if changed {
                    open.push(edge.to);
                }
            }
        }
        for (block, entry) in at_entry.iter().enumerate() {
            let mut state = entry.clone();
            for (index, at, version) in touched.get(block).into_iter().flatten() {
                let Some(slot) = state.get_mut(*at) else { continue };
                match version {
                    Some(version) => *slot = *version,
                    None if *slot != UNSET => drop(self.reads.insert((*index, several[*at]), *slot)),
                    None => {}
                }
            }
        }
        let mut from: HashMap<(u32, usize), Vec<Coming>> = HashMap::new();
        let mut by_block: HashMap<u32, Vec<usize>> = HashMap::new();
        for (block, at) in meets.keys() {
            by_block.entry(*block).or_default().push(*at);
        }
        for (block, info) in graph.blocks.iter().enumerate() {
            let Some(entry) = at_entry.get(block) else { continue };
            if !info.successors.iter().any(|edge| by_block.contains_key(&edge.to)) {
                continue;
            }
            let exit = after(entry, block);
            for (way, edge) in info.successors.iter().enumerate() {
                for &at in by_block.get(&edge.to).into_iter().flatten() {
                    if let Some(&version) = exit.get(at).filter(|version| **version != UNSET) {
                        from.entry((edge.to, at)).or_default().push((block as u32, way, version));
                    }
                }
            }
        }
        self.meetings = meets
            .into_iter()
            .map(|((block, at), version)| Meeting {
                version,
                block,
                from: from.remove(&(block, at)).unwrap_or_default(),
            })
            .collect();
        self.meetings.sort_by_key(|meeting| (meeting.block, meeting.version));
    }
}
