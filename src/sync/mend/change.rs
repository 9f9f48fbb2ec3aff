//! What may be changed of a skeleton, and changing it.

use crate::ptx::{BarrierAction, ClusterBarrierAction};
use crate::simt::eval::number::{Arithmetic, Comparison, Type};
use crate::sync::program::{Address, Combine, Compute, Instr, InstrId, MbarrierOp, Op, Program, Reg, Source};

/// What is changed of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The arrivals that an mbarrier, or the threads that a named barrier, counts to.
    Count {
        /// What it is; null where it is computed, or all threads of the block.
        from: Option<u64>,
        /// What it must be.
        to: u64,
    },
    /// What only announces bytes arrives, too.
    Arrive,
    /// Bytes that are announced.
    Bytes {
        /// What it is; null where it is computed.
        from: Option<u64>,
        /// What it must be.
        to: u64,
    },
    /// An arrival announces bytes, too.
    Announce {
        /// How many.
        bytes: u64,
    },
    /// The number of a named barrier.
    Id {
        /// What it must be.
        to: u64,
    },
    /// The other parity is waited for.
    Parity,
    /// Registers that a setmaxnreg asks for.
    Registers {
        /// What it is.
        from: u32,
        /// What it must be.
        to: u32,
    },
    /// Which mbarrier it is.
    Object {
        /// Where it lies.
        at: Address,
    },
    /// The lanes that an instruction of a warp names.
    Mask {
        /// What it must be.
        to: u32,
    },
    /// A number that is compared with.
    Constant {
        /// What it is.
        from: u64,
        /// What it must be.
        to: u64,
    },
    /// The instruction goes.
    Remove,
    /// Something comes before it, or after it.
    Insert {
        /// What.
        what: Insertion,
        /// Whether it comes after.
        after: bool,
    },
}

impl Change {
    /// Whether that it mends says that the kernel is wrong: a number that everything else fits. What is put in, or moved, may make up for
    /// inputs that no host gives.
    pub fn is_evidence(self) -> bool {
        match self {
            Change::Count { .. }
            | Change::Arrive
            | Change::Bytes { .. }
            | Change::Announce { .. }
            | Change::Id { .. }
            | Change::Parity
            | Change::Registers { .. }
            | Change::Remove => true,
            Change::Object { .. } | Change::Mask { .. } | Change::Constant { .. } | Change::Insert { .. } => false,
        }
    }

    /// Whether it is of what mbarriers count, and of no warp's way.
    pub fn is_of_counts(self) -> bool {
        matches!(self, Change::Count { .. } | Change::Arrive | Change::Bytes { .. } | Change::Announce { .. })
    }
}

/// What is put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// An arrival at an mbarrier.
    Arrive {
        /// Which.
        at: Address,
        /// Of one lane of each warp, for so many; of every lane where it is none.
        count: Option<u64>,
    },
    /// An arrival that announces bytes, by whoever runs what it comes before.
    Announce {
        /// Which mbarrier.
        at: Address,
        /// How many.
        bytes: u64,
    },
    /// The other parity from here on, once a wait is over for the last mbarrier of a ring.
    Toggle {
        /// What holds the parity.
        parity: Reg,
        /// The mbarrier that is waited for.
        at: Address,
        /// The last one of its ring, where it has several.
        last: Option<u64>,
        /// Whether the wait is over.
        over: Reg,
    },
    /// An arrival at a named barrier.
    ArriveNamed {
        /// Which.
        id: u64,
        /// For how many threads.
        count: u64,
    },
    /// An arrival at the cluster barrier.
    ArriveCluster,
    /// A wait for the cluster barrier.
    WaitCluster,
}

/// Numbers of 32 bits.
pub(super) const WORD: Type = Type { bits: 32, signed: false };

/// Makes a change; none where it cannot be made.
pub(super) fn apply(mended: &mut Program, pc: InstrId, change: Change) -> Option<()> {
    if let Change::Insert { what, after } = change {
        return insert(mended, pc, what, after);
    }
    let op = &mut mended.code.get_mut(pc)?.op;
    match (change, op) {
        (Change::Count { to, .. }, Op::Mbarrier { op: MbarrierOp::Init { count }, .. }) => *count = Source::Number(to),
        (Change::Count { to, .. }, Op::Named { count, .. }) => *count = Some(Source::Number(to)),
        (Change::Bytes { to, .. }, Op::Mbarrier { op: MbarrierOp::Arrive { bytes, .. }, .. }) => {
            *bytes = Some(Source::Number(to));
        }
        (Change::Bytes { to, .. }, Op::Mbarrier { op: MbarrierOp::ExpectTx { bytes }, .. }) => {
            *bytes = Source::Number(to);
        }
        (
            Change::Announce { bytes: added },
            Op::Mbarrier { op: MbarrierOp::Arrive { bytes: bytes @ None, .. }, .. },
        ) => *bytes = Some(Source::Number(added)),
        (Change::Arrive, Op::Mbarrier { op, .. }) => {
            let MbarrierOp::ExpectTx { bytes } = *op else { return None };
            *op = MbarrierOp::Arrive { count: Source::Number(1), bytes: Some(bytes), drop: false, to: None };
        }
        (Change::Id { to }, Op::Named { id, .. }) => *id = Source::Number(to),
        (Change::Parity, Op::Mbarrier { op: MbarrierOp::Wait { parity: true, flipped, .. }, .. }) => {
            *flipped = !*flipped;
        }
        (Change::Registers { to, .. }, Op::SetRegisters { count, .. }) => *count = to,
        (Change::Object { at: to }, Op::Mbarrier { at, .. }) => *at = to,
        (
            Change::Mask { to },
            Op::WarpSync { mask }
            | Op::Meet { mask }
            | Op::Elect { mask, .. }
            | Op::Shuffle { mask, .. }
            | Op::Gather { mask, .. },
        ) => *mask = Source::Number(to.into()),
        (Change::Constant { from, to }, Op::Compute { what: Compute::Compare { .. }, args: [_, number, ..], .. }) => {
            if *number != Source::Number(from) {
                return None;
            }
            *number = Source::Number(to);
        }
        (Change::Remove, op) => *op = Op::Unknown { to: Vec::new(), varies_in_order: false },
        _ => return None,
    }
    Some(())
}

/// Puts instructions in: out of line, so that every other one stays where it is.
fn insert(mended: &mut Program, pc: InstrId, what: Insertion, after: bool) -> Option<()> {
    let home = mended.code.get(pc)?.clone();
    let line = home.line;
    let jump = |to: InstrId| Instr { op: Op::Branch { to }, guard: None, line };
    let added = what.code(mended, &home);
    // Whoever comes to the end of the text has ended.
    mended.code.push(Instr { op: Op::Exit, guard: None, line });
    let start = mended.code.next_id();
    *mended.code.get_mut(pc)? = jump(start);
    if after {
        mended.code.push(home);
        mended.code.extend(added);
    } else {
        mended.code.extend(added);
        mended.code.push(home);
    }
    mended.code.push(jump(pc.next()));
    Some(())
}

impl Insertion {
    /// The instructions, with registers of their own.
    fn code(self, program: &mut Program, home: &Instr) -> Vec<Instr> {
        let line = home.line;
        let instr = |op: Op, guard: Option<Reg>| Instr { op, guard: guard.map(|reg| (reg, false)), line };
        let mut fresh = || {
            program.registers += 1;
            Reg(program.registers - 1)
        };
        match self {
            Insertion::Arrive { at, count } => {
                let arrival = |count: u64| {
                    let count = Source::Number(count);
                    Op::Mbarrier { op: MbarrierOp::Arrive { count, bytes: None, drop: false, to: None }, at }
                };
                match count {
                    None => vec![instr(arrival(1), None)],
                    Some(count) => {
                        let one = fresh();
                        let mask = Source::Number(u32::MAX.into());
                        let elect = Op::Elect { lane: None, elected: Some(one), mask };
                        vec![instr(elect, None), instr(arrival(count), Some(one))]
                    }
                }
            }
            Insertion::Announce { at, bytes } => {
                let (count, bytes) = (Source::Number(1), Some(Source::Number(bytes)));
                let op = Op::Mbarrier { op: MbarrierOp::Arrive { count, bytes, drop: false, to: None }, at };
                vec![Instr { op, guard: home.guard, line }]
            }
            Insertion::Toggle { parity, at, last, over } => {
                let toggle = Op::Compute {
                    what: Compute::Arithmetic { what: Arithmetic::Xor, ty: WORD },
                    to: Some(parity),
                    also: None,
                    args: [Source::Reg(parity), Source::Number(1), Source::Unknown, Source::Unknown],
                };
                let Some(last) = last else { return vec![instr(toggle, Some(over))] };
                let wrapped = fresh();
                let last = Source::Shared(last.wrapping_sub(at.offset as u64));
                let compare = Op::Compute {
                    what: Compute::Compare { how: Comparison::Equal, ty: WORD, combine: Combine::And },
                    to: Some(wrapped),
                    also: None,
                    args: [at.base, last, Source::Reg(over), Source::Unknown],
                };
                vec![instr(compare, None), instr(toggle, Some(wrapped))]
            }
            Insertion::ArriveNamed { id, count } => {
                let (id, count) = (Source::Number(id), Some(Source::Number(count)));
                let action = BarrierAction::Arrive;
                vec![instr(Op::Named { action, aligned: false, id, count, to: None }, None)]
            }
            Insertion::ArriveCluster => vec![instr(Op::Cluster { action: ClusterBarrierAction::Arrive }, None)],
            Insertion::WaitCluster => vec![instr(Op::Cluster { action: ClusterBarrierAction::Wait }, None)],
        }
    }
}
