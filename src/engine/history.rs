//! Reading a file of recorded figures.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::gate::History;

/// What such a file may have.
const MOST_BYTES: u64 = 1 << 30;

/// What a file holds; none where there is no such file.
pub fn read(path: &Path) -> Result<Option<(String, History)>> {
    let name = path.display();
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot open {name}")),
    };
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
    if bytes.len() as u64 > MOST_BYTES {
        bail!("{name} has more than {MOST_BYTES} bytes: record fewer kernels (--kernel), or start a new file");
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            bail!("{name} is no history: expected text in UTF-8, found byte {:#04x} at {at}", error.as_bytes()[at]);
        }
    };
    let history = History::parse(&text).with_context(|| format!("{name} is no history"))?;
    Ok(Some((text, history)))
}
