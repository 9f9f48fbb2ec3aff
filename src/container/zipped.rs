//! Zips and wheels, read in place: stored members are ranges of the file, deflated ones are inflated as they are read.

use std::io::Read;
use std::sync::Arc;

use zip::{CompressionMethod, ZipArchive};

use super::decompress::Compression;
use super::error::{ContainerError, Problem};
use super::inflate::Inflated;
use super::left::Left;
use super::sniff::{self, Format, HEAD_BYTES};
use super::source::{Source, SourceReader};
use super::walk::inside;

/// Members up to this size are inflated whole, once; larger ones by range.
const WHOLE_BYTES: u64 = 64 << 20;
/// Any ratio is harmless below this size.
const SMALL: u64 = 256 << 20;
/// Above it, a member that inflates to more than this many times its size is refused.
const MAX_RATIO: u64 = 200;

/// An open zip.
pub(super) struct Zip {
    path: Arc<str>,
    source: Source,
    archive: ZipArchive<SourceReader>,
    members: Vec<Result<Member, ContainerError>>,
    /// Of all members, as they say.
    bytes: u64,
}

/// What the zip says about a member.
struct Member {
    /// Its number in the central directory, where folders count too.
    number: usize,
    name: String,
    method: CompressionMethod,
    start: u64,
    stored_bytes: u64,
    bytes: u64,
}

/// A member, ready to be read.
pub(super) struct Opened {
    pub path: String,
    pub source: Source,
    pub compression: Compression,
    pub stored_bytes: u64,
}

impl Zip {
    /// Reads the central directory.
    pub fn open(path: &str, source: &Source) -> Result<Zip, ContainerError> {
        let damaged = |error: zip::result::ZipError| {
            let error = error.to_string();
            // Its directory stands at the end.
            let cut = if error.contains("EOCD") { ": it was most likely cut off; get it again" } else { "" };
            Problem::Unsupported(format!("damaged zip: {error}{cut}")).at(path)
        };
        let mut archive = ZipArchive::new(source.reader()).map_err(damaged)?;
        let mut members: Vec<_> = (0..archive.len()).filter_map(|index| describe(path, &mut archive, index)).collect();
        refuse_overlaps(path, &mut members);
        if archive.has_duplicate_names() {
            members
                .push(Err(
                    Problem::Unsupported("it names a member twice, and only the last one is read".to_owned()).at(path)
                ));
        }
        let bytes = members.iter().flatten().map(|member| member.bytes).fold(0, u64::saturating_add);
        Ok(Zip { path: path.into(), source: source.clone(), archive, members, bytes })
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// The size of a member once it is inflated; 0 for one that cannot be read.
    pub fn member_bytes(&self, index: usize) -> u64 {
        self.members.get(index).and_then(|member| member.as_ref().ok()).map_or(0, |member| member.bytes)
    }

    /// The path of the zip itself.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A member's share of what the zip may unpack to, by its size.
    pub fn share(&self, index: usize, bytes: u64) -> u64 {
        let share = u128::from(bytes) * u128::from(self.member_bytes(index)) / u128::from(self.bytes.max(1));
        u64::try_from(share).unwrap_or(bytes)
    }

    /// A member that may hold GPU code; `Ok(None)` for anything else.
    pub fn member(&self, index: usize, left: &mut Left) -> Result<Option<Opened>, ContainerError> {
        let member = match self.members.get(index) {
            None => return Ok(None),
            Some(Err(error)) => return Err(error.clone()),
            Some(Ok(member)) => member,
        };
        let path = inside(&self.path, &member.name)?;
        match self.open_member(member, left) {
            Ok(None) => Ok(None),
            Ok(Some(source)) => Ok(Some(Opened {
                path,
                source,
                compression: match member.method {
                    CompressionMethod::STORE => Compression::Stored,
                    _ => Compression::Deflate,
                },
                stored_bytes: member.stored_bytes,
            })),
            Err(problem) => Err(problem.at(path)),
        }
    }

    fn open_member(&self, member: &Member, left: &mut Left) -> Result<Option<Source>, Problem> {
        let packed = self.source.slice(member.start, member.stored_bytes).ok_or(Problem::Truncated {
            what: "zip member",
            offset: member.start,
            needed: member.stored_bytes,
            left: self.source.len().saturating_sub(member.start),
        })?;
        match member.method {
            CompressionMethod::STORE => Ok(Some(packed)),
            CompressionMethod::DEFLATE => {
                let inflated = Source::inflated(Inflated::new(packed, member.bytes));
                // The first bytes tell whether the rest is worth inflating.
                if member.bytes == 0 || sniff::format(&inflated.peek(0, HEAD_BYTES)?) == Format::Unknown {
                    return Ok(None);
                }
                let limit = SMALL.max(member.stored_bytes.saturating_mul(MAX_RATIO));
                if member.bytes > limit {
                    return Err(Problem::Bomb { declared: member.bytes, stored: member.stored_bytes, limit });
                }
                left.take_bytes(member.bytes)?;
                if member.bytes > WHOLE_BYTES {
                    return Ok(Some(inflated));
                }
                self.whole(member).map(Some)
            }
            // Rare: read through the zip crate, if that is no more than one read's worth.
            _ if member.bytes <= WHOLE_BYTES => {
                left.take_bytes(member.bytes)?;
                self.whole(member).map(Some)
            }
            method => Err(Problem::Unsupported(format!(
                "{} bytes with zip method {method}: only stored and deflated members may be that large",
                member.bytes
            ))),
        }
    }

    /// Inflates a member into memory and checks its checksum.
    fn whole(&self, member: &Member) -> Result<Source, Problem> {
        let damaged = |error: String| Problem::Damaged { method: "zip", detail: error };
        let mut archive = self.archive.clone();
        let mut file = archive.by_index(member.number).map_err(|error| damaged(error.to_string()))?;
        let mut bytes = Vec::new();
        file.by_ref()
            .take(member.bytes.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| damaged(error.to_string()))?;
        if bytes.len() as u64 != member.bytes {
            let found = if bytes.len() as u64 > member.bytes {
                format!("more than {}", member.bytes)
            } else {
                bytes.len().to_string()
            };
            return Err(Problem::WrongSize { method: "zip", declared: member.bytes, found });
        }
        Ok(Source::memory(bytes))
    }
}

/// A member's record, or what is wrong with it; nothing for a folder.
fn describe(
    path: &str,
    archive: &mut ZipArchive<SourceReader>,
    index: usize,
) -> Option<Result<Member, ContainerError>> {
    let file = match archive.by_index_raw(index) {
        Ok(file) => file,
        Err(error) => {
            return Some(Err(Problem::Unsupported(format!("damaged zip member {index}: {error}")).at(path)));
        }
    };
    let name = String::from_utf8_lossy(file.name_raw()).into_owned();
    if file.is_dir() {
        return None;
    }
    if is_unsafe(&name) {
        return Some(Err(Problem::UnsafeName { name }.at(path)));
    }
    if file.encrypted() {
        return Some(Err(Problem::Unsupported("it is encrypted".to_owned()).at(format!("{path}/{name}"))));
    }
    let start = file.data_start()?;
    Some(Ok(Member {
        number: index,
        method: file.compression(),
        start,
        stored_bytes: file.compressed_size(),
        bytes: file.size(),
        name,
    }))
}

/// Names that would leave the folder a zip is unpacked to.
fn is_unsafe(name: &str) -> bool {
    let drive = name.as_bytes().get(1) == Some(&b':');
    drive || name.starts_with(['/', '\\']) || name.split(['/', '\\']).any(|part| part == "..") || name.contains('\0')
}

/// Members that share bytes are how a small zip claims to be a huge one.
fn refuse_overlaps(path: &str, members: &mut [Result<Member, ContainerError>]) {
    let mut order: Vec<(u64, u64, usize)> = members
        .iter()
        .enumerate()
        .filter_map(|(at, member)| member.as_ref().ok().map(|m| (m.start, m.start.saturating_add(m.stored_bytes), at)))
        .filter(|(start, end, _)| start < end)
        .collect();
    order.sort_unstable();
    let (mut reach, mut owner) = (0, String::new());
    for (start, end, at) in order {
        let Some(Ok(member)) = members.get(at) else { continue };
        let name = member.name.clone();
        if start < reach {
            members[at] = Err(Problem::Overlap { what: name, other: owner.clone() }.at(path));
        } else {
            (reach, owner) = (end, name);
        }
    }
}
