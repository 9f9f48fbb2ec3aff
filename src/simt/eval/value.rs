//! What a register holds, for all threads of a block at once.

use std::sync::Arc;

use crate::simt::reachability::ThreadSet;

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
        values: Arc<[u64]>,
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
    /// A place in an array inside a variable, by an index that is not known.
    Element {
        /// Index of the variable in `Values::variables`.
        variable: u32,
        /// Bytes from its start to where the array starts: the constant part of the address.
        base: i64,
    },
    /// A place in a variable for each thread.
    Addresses {
        /// Index of the variable in `Values::variables`.
        variable: u32,
        /// Bytes from its start, by thread.
        offsets: Arc<[i64]>,
    },
    /// One of a few numbers for each thread.
    Choice {
        /// Each a number for each thread.
        layers: Arc<[Arc<[u64]>]>,
        /// Among whom it may differ which one it is, or the numbers themselves.
        variation: Variation,
    },
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
            Value::Address { variable, .. } | Value::Addresses { variable, .. } | Value::Element { variable, .. } => {
                Some(*variable)
            }
            _ => None,
        }
    }

    /// The largest number that a thread of a set, or another one of its warp, has.
    pub fn most(&self, set: &ThreadSet) -> Option<u64> {
        let of = |values: &[u64]| {
            let threads = set.whole_warps();
            threads.iter().filter_map(|thread| values.get(thread as usize)).max().copied()
        };
        match self {
            Value::Constant(number) => Some(*number),
            Value::Threads { values, .. } => of(values),
            Value::Choice { layers, .. } => layers.iter().map(|layer| of(layer)).max().flatten(),
            _ => None,
        }
    }

    /// The lowest offset of a place that is known in part.
    pub fn lowest(&self) -> Option<i64> {
        match self {
            Value::Address { offset, .. } => *offset,
            Value::Element { base, .. } => Some(*base),
            Value::Addresses { offsets, .. } => offsets.iter().copied().min(),
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
            Value::Element { variable, base } => match added.and_then(|added| base.checked_add(added)) {
                Some(base) => Value::Element { variable: *variable, base },
                None => Value::Address { variable: *variable, offset: None },
            },
            Value::Addresses { variable, offsets } => {
                let moved: Option<Arc<[i64]>> =
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
            Value::Undefined | Value::Constant(_) | Value::Address { .. } | Value::Element { .. } => Variation::Block,
            Value::Threads { values, .. } => spread(values),
            Value::Addresses { offsets, .. } => spread(offsets),
            Value::Choice { variation, .. } => *variation,
            Value::Unknown(variation) => *variation,
        }
    }

    /// The same, of one that is only looked at.
    pub fn join_with(self, other: &Value) -> Value {
        match (&self, other) {
            (_, Value::Undefined) => self,
            (Value::Unknown(Variation::Lane), _) => self,
            _ => self.join(other.clone()),
        }
    }

    /// What a register holds that got one or the other.
    pub fn join(self, other: Value) -> Value {
        match (self, other) {
            (Value::Undefined, other) => other,
            (this, Value::Undefined) => this,
            (this, other) if this == other => this,
            // AddressSets in one variable: an element of the array that starts at the lower.
            (this, other) if this.variable().is_some() && this.variable() == other.variable() => {
                let variable = this.variable().unwrap_or(0);
                match this.lowest().zip(other.lowest()) {
                    Some((a, b)) => Value::Element { variable, base: a.min(b) },
                    None => Value::Address { variable, offset: None },
                }
            }
            (this, other) => Value::Unknown(this.variation().max(other.variation())),
        }
    }
}
