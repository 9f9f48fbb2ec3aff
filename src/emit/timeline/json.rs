//! The timeline for programs: `docs/schema/timeline-v1.schema.json`.

use std::io::{self, Write};

use serde::Serialize;

use crate::report::timeline::Timeline;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    timelines: &'a [Timeline],
}

/// Writes all timelines.
pub fn write_json(timelines: &[Timeline], out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Document { schema: "ptxinspect.timeline/1", timelines })
        .map_err(io::Error::from)?;
    out.write_all(b"\n")
}
