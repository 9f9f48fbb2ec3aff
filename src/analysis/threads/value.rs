//! What a register holds, for all threads of a block at once.

use std::rc::Rc;

/// Among whom a value that is not known may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variation {
    /// Every thread of the block has the same.
    Block,
    /// Every thread of a warp has the same.
    Warp,
    /// Any thread may have its own.
    Lane,
}

/// What a register holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No definition was looked at yet.
    Undefined,
    /// The same number in every thread.
    Constant(u64),
    /// A number for each thread. `elected` says that `elect.sync` had a part in it, which stands for any one lane.
    Threads {
        /// By thread.
        values: Rc<[u64]>,
        /// Whether lane 0 stands for whichever lane was elected.
        elected: bool,
    },
    /// A place in a variable.
    Address {
        /// Index of the variable in `Values::variables`.
        variable: u32,
        /// Bytes from its start; none when not known.
        offset: Option<i64>,
    },
    /// Anything.
    Unknown(Variation),
}

impl Value {
    /// The number, if every thread has the same.
    pub fn constant(&self) -> Option<u64> {
        match self {
            Value::Constant(value) => Some(*value),
            Value::Threads { values, .. } => {
                let first = *values.first()?;
                values.iter().all(|value| *value == first).then_some(first)
            }
            _ => None,
        }
    }

    /// Among whom it may differ.
    pub fn variation(&self) -> Variation {
        match self {
            Value::Undefined | Value::Constant(_) | Value::Address { .. } => Variation::Block,
            Value::Threads { values, .. } => {
                let first = values.first();
                if values.chunks(32).all(|warp| warp.iter().all(|value| Some(value) == warp.first())) {
                    if values.iter().all(|value| Some(value) == first) { Variation::Block } else { Variation::Warp }
                } else {
                    Variation::Lane
                }
            }
            Value::Unknown(variation) => *variation,
        }
    }

    /// What a register holds that got one or the other.
    pub fn join(self, other: Value) -> Value {
        match (self, other) {
            (Value::Undefined, other) => other,
            (this, Value::Undefined) => this,
            (this, other) if this == other => this,
            (Value::Address { variable: a, .. }, Value::Address { variable: b, .. }) if a == b => {
                Value::Address { variable: a, offset: None }
            }
            (this, other) => Value::Unknown(this.variation().max(other.variation())),
        }
    }
}
