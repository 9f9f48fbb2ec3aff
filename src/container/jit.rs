//! Compilers' caches: the files beside a cubin or PTX that say how it was made.

use std::path::Path;

use serde_json::{Map, Value};

use crate::base::Arch;

/// Metadata is small; anything larger is something else.
const MAX_BYTES: u64 = 1 << 20;

/// What a cache says about a cubin or PTX, as Triton writes it: `attn.json` beside `attn.cubin` and `attn.ptx`.
#[derive(Clone, Debug, PartialEq)]
pub struct JitMetadata {
    /// The kernel's name.
    pub kernel: Option<String>,
    /// The architecture that was asked for.
    pub arch: Option<Arch>,
    /// Everything the file says, in its order of names: `num_warps`, `num_stages`, `shared`, `ptx_options`, …
    pub options: Map<String, Value>,
    /// The file name of the other half: the PTX of a cubin, the cubin of a PTX.
    pub companion: Option<String>,
}

/// Reads what lies beside a file; `None` where nothing does.
pub(super) fn beside(path: &Path) -> Option<JitMetadata> {
    let other = match path.extension()?.to_str()? {
        "ptx" => "cubin",
        "cubin" => "ptx",
        _ => return None,
    };
    let other = path.with_extension(other);
    // A link may lead anywhere.
    let is_file = other.symlink_metadata().is_ok_and(|found| found.is_file());
    let companion = is_file.then(|| other.file_name().map(|name| name.to_string_lossy().into_owned())).flatten();
    let options = options(&path.with_extension("json")).unwrap_or_default();
    if options.is_empty() && companion.is_none() {
        return None;
    }
    let kernel = options.get("name").and_then(Value::as_str).map(str::to_owned);
    // "target": {"backend": "cuda", "arch": 90, "warp_size": 32}, and "arch": "sm90" beside it
    let number = options.get("target").and_then(|target| target.get("arch")).and_then(Value::as_u64);
    let arch = options.get("arch").and_then(Value::as_str).and_then(|arch| arch.parse().ok());
    let arch = arch.or_else(|| number.and_then(|sm| u16::try_from(sm).ok()).map(Arch::new));
    Some(JitMetadata { kernel, arch, options, companion })
}

fn options(path: &Path) -> Option<Map<String, Value>> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return None;
    }
    match serde_json::from_slice(&std::fs::read(path).ok()?).ok()? {
        Value::Object(options) => Some(options),
        _ => None,
    }
}
