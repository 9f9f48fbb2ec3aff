//! Compilers' caches: the files beside a cubin or PTX that say how it was made.

use std::io;
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

/// How a cache's launcher starts the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitLaunch {
    /// Threads of a block.
    pub threads: u32,
    /// Shared memory asked for at launch.
    pub smem_dynamic_bytes: u64,
}

/// The most warps that a block has.
const MAX_WARPS: u64 = 32;
/// Lanes of a warp.
const WARP_SIZE: u64 = 32;

impl JitMetadata {
    /// What the bytes of such a file say, and the file name of the other half; none where they are something else.
    pub fn parse(bytes: &[u8], companion: Option<String>) -> Option<Self> {
        let options = match serde_json::from_slice(bytes) {
            Ok(Value::Object(options)) => options,
            _ => Map::new(),
        };
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

    /// The launch, where the file says it all: `num_warps` and `shared`, of a kernel for an NVIDIA GPU. Where it says something that cannot
    /// be, none.
    pub fn launch(&self) -> Option<JitLaunch> {
        let target = self.options.get("target");
        let cuda = |target: &Value| target.get("backend").is_none_or(|backend| backend == "cuda");
        let number = |name: &str| self.options.get(name).and_then(Value::as_u64);
        let warps = number("num_warps").filter(|warps| (1..=MAX_WARPS).contains(warps))?;
        let is_ours = target.is_none_or(cuda) && number("warp_size").is_none_or(|size| size == WARP_SIZE);
        let threads = u32::try_from(warps * WARP_SIZE).ok().filter(|_| is_ours)?;
        let smem_dynamic_bytes = number("shared").filter(|&bytes| u32::try_from(bytes).is_ok())?;
        Some(JitLaunch { threads, smem_dynamic_bytes })
    }
}

/// Reads what lies beside a file; `None` where nothing does. What is there and cannot be read is an error: without it the entry
/// would be another one.
pub fn beside(path: &Path) -> io::Result<Option<JitMetadata>> {
    let other = match path.extension().and_then(|extension| extension.to_str()) {
        Some("ptx") => "cubin",
        Some("cubin") => "ptx",
        _ => return Ok(None),
    };
    let other = path.with_extension(other);
    // A link may lead anywhere.
    let is_file = there(other.symlink_metadata())?.is_some_and(|found| found.is_file());
    let companion = is_file.then(|| other.file_name().map(|name| name.to_string_lossy().into_owned())).flatten();
    let bytes = read(&path.with_extension("json"))?.unwrap_or_default();
    Ok(JitMetadata::parse(&bytes, companion))
}

/// What there is; none where there is nothing, or nothing that the user may look at.
fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound, PermissionDenied};
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), InvalidFilename | NotADirectory | NotFound | PermissionDenied) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let metadata = there(std::fs::symlink_metadata(path))?;
    if metadata.is_none_or(|metadata| !metadata.is_file() || metadata.len() > MAX_BYTES) {
        return Ok(None);
    }
    there(std::fs::read(path))
}
