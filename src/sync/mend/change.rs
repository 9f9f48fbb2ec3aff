//! What may be changed of a skeleton, and changing it.

use crate::sync::program::{MbarrierOp, Op, Program, Source};

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
    /// The instruction goes.
    Remove,
}

/// Makes a change; none where it cannot be made.
pub(super) fn apply(mended: &mut Program, pc: u32, change: Change) -> Option<()> {
    let op = &mut mended.code.get_mut(pc as usize)?.op;
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
        (Change::Remove, op) => *op = Op::Unknown { to: Vec::new(), varies_in_order: false },
        _ => return None,
    }
    Some(())
}
