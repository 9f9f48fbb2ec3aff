//! The engine: what there is to inspect in, what is known of it out.
//!
//! Files, processes, threads and the clock are behind it. It prints nothing: who asks writes the answer, with `emit` or otherwise.

pub mod glob;
pub mod input;
pub mod jobserver;
pub mod memory;
pub mod room;
pub mod source;
pub mod threads;
