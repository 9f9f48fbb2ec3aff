//! What lanes of a warp do together: elections, shuffles, votes, matches and reductions.

use super::step::{Next, lanes_of};
use super::{Run, State, Stop, Strand, Wait};
use crate::base::Line;
use crate::sync::machine::Fault;
use crate::sync::program::{Gather, InstrId, Op, Shuffle, Source};
use crate::sync::value::{Basis, Lanes, Word};

impl Run<'_> {
    /// Instructions that lanes of a warp run together.
    pub(super) fn across_lanes(
        &mut self,
        warp: usize,
        strand: usize,
        mask: u32,
        op: &Op,
        line: Line,
    ) -> Result<Next, Stop> {
        let member = match op {
            Op::Elect { mask, .. }
            | Op::Shuffle { mask, .. }
            | Op::Gather { mask, .. }
            | Op::Meet { mask }
            | Op::WarpSync { mask } => *mask,
            _ => Source::Number(u64::from(mask)),
        };
        // Lanes may give masks of their own, each with itself in it: the first one's counts.
        let first = mask.trailing_zeros() as usize;
        let members = self.word(&self.warps[warp], member, first).bits as u32;
        let outside = lanes_of(mask).find_map(|lane| {
            let word = self.word(&self.warps[warp], member, lane);
            let out = word.basis < Basis::Memory && word.bits >> lane & 1 == 0;
            out.then_some(Fault::NotMember { lane: lane as u32, mask: word.bits as u32 })
        });
        if let Some(fault) = outside {
            return Err(Stop::Fault(fault, line, warp));
        }
        let here = &self.warps[warp];
        let wanted = members & here.lanes & !here.exited;
        let pc = here.strands[strand].pc;
        if wanted & !mask != 0 {
            // Others that must come. At bar.warp.sync they may stand at another one.
            let is_sync = |pc: InstrId| matches!(self.program.code.get(pc).map(|i| &i.op), Some(Op::WarpSync { .. }));
            let waits = |strand: &&Strand| {
                matches!(strand.state, State::Waiting { what: Wait::Lanes { .. }, .. })
                    && is_sync(strand.pc)
                    && strand.pc != pc
            };
            let come = here.strands.iter().filter(waits).fold(mask, |all, strand| all | strand.mask);
            if !matches!(op, Op::WarpSync { .. }) || wanted & !come != 0 {
                return Ok(Next::Again(Wait::Lanes { mask: wanted }));
            }
            for other in &mut self.warps[warp].strands {
                if matches!(other.state, State::Waiting { what: Wait::Lanes { .. }, .. }) && other.mask & wanted != 0 {
                    (other.state, other.pc) = (State::Ready, other.pc.next());
                }
            }
            return Ok(Next::On);
        }
        match op {
            Op::Elect { lane, elected, .. } => {
                // Which lane is elected is not told: where data is looked at, not the one that programs take to be the first.
                let members = members & mask;
                let leader = match self.data {
                    Some(_) => 31_u32.saturating_sub(members.leading_zeros()),
                    None => members.trailing_zeros().min(31),
                } as usize;
                self.write(warp, *lane, mask, Lanes::Same(Word::fact(leader as u64)));
                self.write(warp, *elected, mask, Lanes::each(|lane| Word::fact(u64::from(lane == leader))));
            }
            Op::ActiveMask { to } => {
                let word = Word { bits: u64::from(mask), basis: Basis::Order };
                self.write(warp, Some(*to), mask, Lanes::Same(word));
            }
            Op::Shuffle { how, to, valid, value, by, clamp, .. } => {
                let here = &self.warps[warp];
                let from = |lane: usize| {
                    let by = self.word(here, *by, lane).bits as usize & 31;
                    let clamp = self.word(here, *clamp, lane).bits as usize;
                    let (segment, bound) = (clamp >> 8 & 31, clamp & 31);
                    let most = lane & segment | bound & !segment & 31;
                    let (source, inside) = match how {
                        Shuffle::Index => {
                            let source = lane & segment | by & !segment & 31;
                            (source, source <= most)
                        }
                        Shuffle::Up => (lane.wrapping_sub(by), lane >= by && lane - by >= most),
                        Shuffle::Down => (lane + by, lane + by <= most),
                        Shuffle::Butterfly => (lane ^ by, lane ^ by <= most),
                    };
                    if inside { (source & 31, true) } else { (lane, false) }
                };
                let read = Lanes::each(|lane| self.word(here, *value, from(lane).0));
                let inside = Lanes::each(|lane| Word::fact(u64::from(from(lane).1)));
                self.write(warp, *to, mask, read);
                self.write(warp, *valid, mask, inside);
            }
            Op::Gather { how, to, value, .. } => {
                let here = &self.warps[warp];
                let words: Vec<(usize, Word)> =
                    lanes_of(members & mask).map(|lane| (lane, self.word(here, *value, lane))).collect();
                let basis = words.iter().map(|(_, word)| word.basis).max().unwrap_or_default();
                let on = |word: &Word| word.bits & 1 == 1;
                let all = words.iter().all(|(_, word)| on(word));
                let any = words.iter().any(|(_, word)| on(word));
                let fold = |of: fn(u64, u64) -> u64, start: u64| {
                    words.iter().fold(start, |all, (_, word)| of(all, word.bits & 0xffff_ffff))
                };
                let bits = match how {
                    Gather::All => u64::from(all),
                    Gather::Any => u64::from(any),
                    Gather::Uniform => u64::from(all || !any),
                    Gather::Ballot => {
                        words.iter().filter(|(_, word)| on(word)).fold(0, |all, (lane, _)| all | 1 << lane)
                    }
                    Gather::Sum => fold(|a, b| a.wrapping_add(b) & 0xffff_ffff, 0),
                    Gather::And => fold(|a, b| a & b, 0xffff_ffff),
                    Gather::Or => fold(|a, b| a | b, 0),
                    Gather::Xor => fold(|a, b| a ^ b, 0),
                    Gather::Least(ty) => {
                        words.iter().map(|(_, word)| ty.number(word.bits)).min().map_or(0, |n| ty.mask(n as u64))
                    }
                    Gather::Most(ty) => {
                        words.iter().map(|(_, word)| ty.number(word.bits)).max().map_or(0, |n| ty.mask(n as u64))
                    }
                };
                self.write(warp, *to, mask, Lanes::Same(Word { bits, basis }));
            }
            _ => {}
        }
        Ok(Next::On)
    }
}
