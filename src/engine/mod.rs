//! The engine: what there is to inspect in, what is known of it out.
//!
//! Files, processes, threads and the clock are behind it. It prints nothing: who asks writes the answer, with `emit` or otherwise.

pub mod cache;
pub mod commit;
pub mod compile;
pub mod contents;
pub mod deny;
pub mod diff;
pub mod extract;
pub mod foreign;
pub mod gate;
pub mod given;
pub mod glob;
pub mod history;
pub mod input;
pub mod inspect;
pub mod jobserver;
pub mod library;
pub mod list;
pub mod listing;
pub mod matrix;
pub mod memory;
mod pages;
pub mod progress;
pub mod room;
pub mod settings;
pub mod size;
pub mod source;
pub mod step;
pub mod threads;
pub mod timeline;
pub mod tune;
