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
    /// A place in a variable for each thread.
    Addresses {
        /// Index of the variable in `Values::variables`.
        variable: u32,
        /// Bytes from its start, by thread.
        offsets: Rc<[i64]>,
    },
    /// One of a few numbers for each thread: what instructions that ran before may have left in shared memory.
    Choice(Rc<[Rc<[u64]>]>),
    /// Anything.
    Unknown(Variation),
}

/// Among whom numbers differ.
fn spread<T: PartialEq>(values: &[T]) -> Variation {
    let first = values.first();
    if !values.chunks(32).all(|warp| warp.iter().all(|value| Some(value) == warp.first())) {
        Variation::Lane
    } else if values.iter().all(|value| Some(value) == first) {
        Variation::Block
    } else {
        Variation::Warp
    }
}

impl Value {
    /// The variable that it is a place in.
    pub fn variable(&self) -> Option<u32> {
        match self {
            Value::Address { variable, .. } | Value::Addresses { variable, .. } => Some(*variable),
            _ => None,
        }
    }

    /// A place so many bytes further on.
    pub fn shifted(&self, added: Option<i64>) -> Option<Value> {
        Some(match self {
            Value::Address { variable, offset } => Value::Address {
                variable: *variable,
                offset: offset.zip(added).and_then(|(offset, added)| offset.checked_add(added)),
            },
            Value::Addresses { variable, offsets } => {
                let moved: Option<Rc<[i64]>> =
                    added.and_then(|added| offsets.iter().map(|offset| offset.checked_add(added)).collect());
                match moved {
                    Some(offsets) => Value::Addresses { variable: *variable, offsets },
                    None => Value::Address { variable: *variable, offset: None },
                }
            }
            _ => return None,
        })
    }

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
            Value::Threads { values, .. } => spread(values),
            Value::Addresses { offsets, .. } => spread(offsets),
            // Threads of a warp read the same at one time.
            Value::Choice(layers) => {
                layers.iter().map(|layer| spread(layer)).max().unwrap_or(Variation::Lane).max(Variation::Warp)
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
            (
                Value::Address { variable: a, .. } | Value::Addresses { variable: a, .. },
                Value::Address { variable: b, .. } | Value::Addresses { variable: b, .. },
            ) if a == b => Value::Address { variable: a, offset: None },
            (this, other) => Value::Unknown(this.variation().max(other.variation())),
        }
    }
}
