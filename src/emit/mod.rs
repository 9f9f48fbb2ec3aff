//! Writers at the edge: one file a format, each a function of the model and a `Write`.
//!
//! Nothing here computes a fact. What comes from an input is escaped before it is written, as its format asks; what leaves the
//! program has passed [`clean`], whatever a writer forgot.

pub mod annotate;
pub mod clean;
mod control;
pub mod cost;
pub mod diff;
pub mod escape;
pub mod explain;
pub mod gate;
pub mod history;
pub mod html;
pub mod json;
pub mod library;
pub mod links;
pub mod list;
pub mod listing;
pub mod matrices;
pub mod matrix;
pub mod occupancy;
mod page;
pub mod schema;
pub mod size;
pub mod svg;
pub mod text;
pub mod timeline;
pub mod tune;
