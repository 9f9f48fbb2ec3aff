//! One entry: what went in, what came out, and the bytes of both.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The first bytes of an entry's file.
const MAGIC: &[u8] = b"ptxinspect-cache/3\n";
/// The last bytes: a SHA-256 of all before.
const SUM_BYTES: usize = 32;

/// What an entry is found by: 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub(super) String);

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Key {
    /// The digest of an input, as [`Key::new`] takes it.
    pub fn digest(input: &[u8]) -> String {
        hex(&Sha256::digest(input))
    }

    /// The key of a compilation: the input's digest, ptxas's arguments less the files, the version of the ptxas. Two ptxas of
    /// one version have one key; their identity tells them apart.
    pub fn new(input_digest: &str, arguments: &[String], version: &str) -> Self {
        let mut hash = Sha256::new();
        // Each part with its length: no two lists look alike.
        for part in [input_digest, version].into_iter().chain(arguments.iter().map(String::as_str)) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        Key(hex(&hash.finalize()))
    }
}

/// How a compilation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// With a cubin.
    Cubin(Vec<u8>),
    /// ptxas refuses the PTX, for reasons that its log has.
    Refusal {
        /// Its exit code.
        code: i32,
    },
}

/// What a compilation gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The SHA-256 of the ptxas that ran.
    pub ptxas: String,
    /// What was changed in the PTX before ptxas saw it, in words.
    pub prepared: Vec<String>,
    /// How long ptxas took, to a microsecond; none in entries of an earlier version.
    pub took: Option<Duration>,
    /// What ptxas printed.
    pub log: String,
    /// The cubin, or that there is none.
    pub made: Made,
}

#[derive(Serialize, Deserialize)]
struct Header {
    /// What it is found by: a file that lies in another's place is not taken for it.
    key: String,
    ptxas: String,
    prepared: Vec<String>,
    #[serde(default)]
    microseconds: Option<u64>,
    log_bytes: u64,
    cubin_bytes: u64,
    /// ptxas's exit code where it refuses the PTX; nothing follows the log then.
    refusal_code: Option<i32>,
}

impl Entry {
    /// The file's bytes.
    pub(super) fn to_bytes(&self, key: &Key) -> Vec<u8> {
        let (cubin, refusal_code) = match &self.made {
            Made::Cubin(cubin) => (cubin.as_slice(), None),
            Made::Refusal { code } => (&[][..], Some(*code)),
        };
        let header = Header {
            key: key.0.clone(),
            ptxas: self.ptxas.clone(),
            prepared: self.prepared.clone(),
            microseconds: self.took.and_then(|took| u64::try_from(took.as_micros()).ok()),
            log_bytes: self.log.len() as u64,
            cubin_bytes: cubin.len() as u64,
            refusal_code,
        };
        let header = serde_json::to_vec(&header).unwrap_or_default();
        let mut bytes = Vec::with_capacity(MAGIC.len() + header.len() + self.log.len() + cubin.len() + 64);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(self.log.as_bytes());
        bytes.extend_from_slice(cubin);
        let sum = Sha256::digest(&bytes);
        bytes.extend_from_slice(&sum);
        bytes
    }

    /// Reads a file's bytes back; none when they are not, to the last bit, what was written under that key.
    pub(super) fn from_bytes(key: &Key, mut bytes: Vec<u8>) -> Option<Entry> {
        let content = bytes.len().checked_sub(SUM_BYTES)?;
        if !bytes.starts_with(MAGIC) || Sha256::digest(bytes.get(..content)?)[..] != *bytes.get(content..)? {
            return None;
        }
        let at = MAGIC.len();
        let size = u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
        let log_at = (at + 8).checked_add(usize::try_from(size).ok()?)?;
        let header: Header = serde_json::from_slice(bytes.get(at + 8..log_at)?).ok()?;
        if header.key != key.0 {
            return None;
        }
        let cubin_at = log_at.checked_add(usize::try_from(header.log_bytes).ok()?)?;
        let log = String::from_utf8(bytes.get(log_at..cubin_at)?.to_vec()).ok()?;
        bytes.truncate(content);
        let cubin = bytes.split_off(cubin_at);
        if cubin.len() as u64 != header.cubin_bytes {
            return None;
        }
        let made = match header.refusal_code {
            None => Made::Cubin(cubin),
            Some(code) if cubin.is_empty() => Made::Refusal { code },
            Some(_) => return None,
        };
        let took = header.microseconds.map(Duration::from_micros);
        Some(Entry { ptxas: header.ptxas, prepared: header.prepared, took, log, made })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(made: Made) -> Entry {
        Entry {
            ptxas: "ab".to_owned(),
            prepared: vec!["a NUL was cut off".to_owned()],
            took: Some(Duration::from_micros(1234)),
            log: "ptxas info : Used 8 registers\n".to_owned(),
            made,
        }
    }

    #[test]
    fn an_entry_reads_back_and_every_damage_is_seen() {
        let key = Key::new("input", &[], "1");
        let cubin = Made::Cubin((0..1000u32).map(|byte| byte as u8).collect());
        for made in [cubin, Made::Refusal { code: 255 }] {
            let bytes = entry(made.clone()).to_bytes(&key);
            assert_eq!(Entry::from_bytes(&key, bytes.clone()), Some(entry(made)));
            for at in (0..bytes.len()).step_by(7) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x10;
                assert_eq!(Entry::from_bytes(&key, damaged), None, "byte {at}");
                assert_eq!(Entry::from_bytes(&key, bytes[..at].to_vec()), None, "cut at {at}");
            }
            assert_eq!(Entry::from_bytes(&Key::new("other", &[], "1"), bytes), None);
        }
        assert_eq!(Entry::from_bytes(&key, Vec::new()), None);
    }

    #[test]
    fn keys_differ_with_everything_that_goes_in() {
        let key = |digest: &str, arguments: &[&str], version: &str| {
            Key::new(digest, &arguments.iter().map(|argument| argument.to_string()).collect::<Vec<_>>(), version)
        };
        let all = [
            key("a", &["-v", "-O1"], "13.4.92"),
            key("b", &["-v", "-O1"], "13.4.92"),
            key("a", &["-v", "-O2"], "13.4.92"),
            key("a", &["-v-O1"], "13.4.92"),
            key("a", &["-v", "-O1"], "13.4.91"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other != one));
        }
    }
}
