//! The oracle: what nvdisasm prints for a word, asked in batches and remembered.
//!
//! A word goes in, the text of the instruction comes out, or nothing where nvdisasm calls it illegal. Answers are kept in
//! memory and, when a folder is given, on disk, so that a second run of the learner starts nvdisasm only for new words.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Control bits every probe carries: stall 1, yield hint set, no barriers. With it all combinations of reuse bits are legal.
pub const CONTROL: u128 = (0x11 << 105) | (0x3f << 110);
/// Control beside which reuse bits are legal that mean nothing: stall 11, no yield hint, no barriers.
pub const OTHER_CONTROL: u128 = (0xb << 105) | (0x3f << 110);
/// The bits of the scheduling control, reuse aside.
pub const CONTROL_MASK: u128 = 0x1ffff << 105;

/// Words of one opcode at which nvdisasm stops before the others of a batch are not asked for.
const MOST_FATAL: usize = 8;

/// Multiplicative hashing: words are keys by the million.
#[derive(Default)]
pub struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut buf = [0u8; 8];
            buf[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(buf));
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }
    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }
}

pub type WordMap<V> = HashMap<u128, V, BuildHasherDefault<WordHasher>>;
pub type WordSet = HashSet<u128, BuildHasherDefault<WordHasher>>;

/// A question not answered yet: it has been noted, ask again after [`Oracle::settle`].
#[derive(Debug)]
pub struct Pending;

pub struct Oracle {
    nvdisasm: PathBuf,
    pub arch: String,
    texts: WordMap<Option<Box<str>>>,
    /// The name nvdisasm gives the group of encodings a word belongs to: used to group words while learning, never stored.
    labels: WordMap<Option<u32>>,
    names: Vec<String>,
    by_name: HashMap<String, u32>,
    want_text: Vec<u128>,
    want_label: Vec<u128>,
    /// Opcodes whose text holds an address relative to the instruction.
    relative: HashSet<u16>,
    /// How many words of an opcode were tried at two addresses.
    judged: HashMap<u16, usize>,
    log: Option<BufWriter<File>>,
    pub asked: usize,
    pub runs: usize,
}

impl Oracle {
    pub fn new(nvdisasm: PathBuf, arch: &str, cache: Option<PathBuf>) -> Result<Oracle> {
        let mut oracle = Oracle {
            nvdisasm,
            arch: arch.to_owned(),
            texts: WordMap::default(),
            labels: WordMap::default(),
            names: Vec::new(),
            by_name: HashMap::new(),
            want_text: Vec::new(),
            want_label: Vec::new(),
            relative: HashSet::new(),
            judged: HashMap::new(),
            log: None,
            asked: 0,
            runs: 0,
        };
        if let Some(dir) = cache {
            std::fs::create_dir_all(&dir)?;
            let path = dir.join(format!("{arch}.answers"));
            if let Ok(file) = File::open(&path) {
                oracle.load(BufReader::with_capacity(1 << 20, file));
            }
            oracle.log = Some(BufWriter::new(File::options().append(true).create(true).open(path)?));
        }
        Ok(oracle)
    }

    fn load(&mut self, mut file: impl Read) {
        let mut head = [0u8; 19];
        while file.read_exact(&mut head).is_ok() {
            let word = u128::from_le_bytes(head[..16].try_into().unwrap_or_default());
            let len = u16::from_le_bytes([head[17], head[18]]) as usize;
            let mut text = vec![0; len];
            if file.read_exact(&mut text).is_err() {
                break;
            }
            let text = String::from_utf8_lossy(&text).into_owned();
            match head[16] {
                b't' => drop(self.texts.insert(word, Some(text.into()))),
                b'i' => drop(self.texts.insert(word, None)),
                b'l' => {
                    let id = self.name_id(&text);
                    self.labels.insert(word, Some(id));
                }
                b'n' => drop(self.labels.insert(word, None)),
                // What was asked before the opcode was known to be relative is asked anew.
                b'r' => {
                    self.relative.insert(word as u16);
                    self.texts.retain(|w, _| *w as u16 & 0xfff != word as u16);
                }
                _ => {}
            }
        }
    }

    fn record(&mut self, word: u128, kind: u8, text: &str) -> Result<()> {
        if let Some(log) = &mut self.log {
            log.write_all(&word.to_le_bytes())?;
            log.write_all(&[kind])?;
            log.write_all(&(text.len() as u16).to_le_bytes())?;
            log.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    fn name_id(&mut self, name: &str) -> u32 {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let id = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.by_name.insert(name.to_owned(), id);
        id
    }

    pub fn name(&self, id: u32) -> &str {
        &self.names[id as usize]
    }

    /// The text if it is known already.
    pub fn known(&self, word: u128) -> Option<Option<&str>> {
        self.texts.get(&word).map(|t| t.as_deref())
    }

    /// Asks for many texts at once; succeeds when all are known.
    pub fn texts(&mut self, words: &[u128]) -> Result<(), Pending> {
        let before = self.want_text.len();
        for &word in words {
            if !self.texts.contains_key(&word) {
                self.want_text.push(word);
            }
        }
        if self.want_text.len() > before { Err(Pending) } else { Ok(()) }
    }

    pub fn labels(&mut self, words: &[u128]) -> Result<(), Pending> {
        let before = self.want_label.len();
        for &word in words {
            if !self.labels.contains_key(&word) {
                self.want_label.push(word);
            }
        }
        if self.want_label.len() > before { Err(Pending) } else { Ok(()) }
    }

    pub fn label(&self, word: u128) -> Option<u32> {
        self.labels.get(&word).copied().flatten()
    }

    pub fn all_labels(&self) -> impl Iterator<Item = (u128, u32)> + '_ {
        self.labels.iter().filter_map(|(&w, &l)| Some((w, l?)))
    }

    /// Answers every noted question. Says whether there were any.
    pub fn settle(&mut self) -> Result<bool> {
        let mut words = std::mem::take(&mut self.want_text);
        let mut labels = std::mem::take(&mut self.want_label);
        for list in [&mut words, &mut labels] {
            list.sort_unstable();
            list.dedup();
        }
        if words.is_empty() && labels.is_empty() {
            return Ok(false);
        }
        self.asked += words.len() + labels.len();
        self.find_relative(&words)?;
        for chunk in words.chunks(150_000) {
            for (word, text) in self.disassemble(chunk)? {
                self.record(word, if text.is_some() { b't' } else { b'i' }, text.as_deref().unwrap_or(""))?;
                self.texts.insert(word, text);
            }
        }
        for chunk in labels.chunks(150_000) {
            for (word, name) in self.group(chunk)? {
                self.record(word, if name.is_some() { b'l' } else { b'n' }, name.as_deref().unwrap_or(""))?;
                let id = name.map(|n| self.name_id(&n));
                self.labels.insert(word, id);
            }
        }
        if let Some(log) = &mut self.log {
            log.flush()?;
        }
        Ok(true)
    }

    /// Runs nvdisasm on raw words; gives its listing by address and the errors by address.
    fn run(&mut self, words: &[u128], base: u64) -> Result<(String, String)> {
        self.runs += 1;
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("words.bin");
        let mut bytes = Vec::with_capacity(words.len() * 16);
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        std::fs::write(&path, bytes)?;
        let output = Command::new(&self.nvdisasm)
            .args(["-b", &self.arch, "-base", &format!("{base:#x}")])
            .arg(&path)
            .output()
            .with_context(|| format!("cannot run {}", self.nvdisasm.display()))?;
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// `nvdisasm error   : Opclass 'x', undefined value 0x10 for table 'y' at address 0x00000010`
    fn errors(stderr: &str) -> impl Iterator<Item = (usize, &str)> {
        stderr.lines().filter_map(|line| {
            let (_, at) = line.rsplit_once("at address 0x")?;
            let address = usize::from_str_radix(at.trim().trim_end_matches('.'), 16).ok()?;
            Some((address / 16, line))
        })
    }

    fn listing(&mut self, words: &[u128], base: u64) -> Result<Vec<Option<Box<str>>>> {
        let mut out = vec![None; words.len()];
        let mut legal: Vec<usize> = (0..words.len()).collect();
        let mut fatal: HashMap<u16, usize> = HashMap::new();
        loop {
            if legal.is_empty() {
                return Ok(out);
            }
            let batch: Vec<u128> = legal.iter().map(|&i| words[i]).collect();
            let (stdout, stderr) = self.run(&batch, base)?;
            let mut bad = HashSet::new();
            for (index, _) in Self::errors(&stderr) {
                bad.insert(index.wrapping_sub((base / 16) as usize));
            }
            if !bad.is_empty() {
                let before = legal.len();
                // At a word that two patterns match nvdisasm stops: an opcode with many of them is left out.
                if stderr.contains("nvdisasm fatal") {
                    for &word in bad.iter().filter_map(|&index| batch.get(index)) {
                        *fatal.entry(word as u16 & 0xfff).or_default() += 1;
                    }
                }
                let stops = |i: usize| fatal.get(&(words[i] as u16 & 0xfff)).is_some_and(|count| *count > MOST_FATAL);
                let mut index = 0;
                legal.retain(|&i| {
                    index += 1;
                    !bad.contains(&(index - 1)) && !stops(i)
                });
                if legal.len() == before {
                    bail!("nvdisasm -b {} calls words illegal that it was not given", self.arch);
                }
                continue;
            }
            if stdout.is_empty() {
                bail!("nvdisasm -b {} printed nothing: {}", self.arch, stderr.lines().next().unwrap_or("no error"));
            }
            // `        /*0010*/                   FLO.U32.SH R2, R2 ;`
            for line in stdout.lines() {
                let Some(rest) = line.trim_start().strip_prefix("/*") else { continue };
                let Some((address, text)) = rest.split_once("*/") else { continue };
                let Ok(address) = u64::from_str_radix(address, 16) else { continue };
                let at = (address.wrapping_sub(base) / 16) as usize;
                let text = text.trim_start();
                let text = text.strip_suffix(';').unwrap_or(text);
                let text = text.strip_suffix(' ').unwrap_or(text);
                // `TEX R6, R4,      ???255`: a value without a spelling.
                if let Some(&index) = legal.get(at)
                    && !text.contains("???")
                {
                    out[index] = Some(text.into());
                }
            }
            return Ok(out);
        }
    }

    /// An opcode is relative when one of its words prints otherwise at another address.
    fn find_relative(&mut self, words: &[u128]) -> Result<()> {
        let mut seen: HashMap<u16, Vec<u128>> = HashMap::new();
        for &word in words {
            let op = word as u16 & 0xfff;
            // Of the opcodes that move control any word may be the first with a target.
            let tried = self.judged.entry(op).or_default();
            if (*tried < 12 || moves_control(word)) && !self.relative.contains(&op) {
                *tried += 1;
                seen.entry(op).or_default().push(word);
            }
        }
        let sample: Vec<u128> = seen.into_values().flatten().collect();
        let near = self.listing(&sample, 0)?;
        let far = self.listing(&sample, 0x10_0000)?;
        for ((word, a), b) in sample.iter().zip(near).zip(far) {
            let op = *word as u16 & 0xfff;
            let hex = |t: &Option<Box<str>>| t.as_ref().map(|t| t.matches("0x").count());
            if a != b && hex(&a) == hex(&b) && self.relative.insert(op) {
                self.record(u128::from(op), b'r', "")?;
                self.texts.retain(|w, _| *w as u16 & 0xfff != op);
            }
        }
        Ok(())
    }

    fn disassemble(&mut self, words: &[u128]) -> Result<Vec<(u128, Option<Box<str>>)>> {
        let mut texts = self.listing(words, 0)?;
        // The same word elsewhere tells a relative address from an absolute one.
        let moving: Vec<usize> = (0..words.len())
            .filter(|&i| texts[i].is_some() && self.relative.contains(&(words[i] as u16 & 0xfff)))
            .collect();
        let list: Vec<u128> = moving.iter().map(|&i| words[i]).collect();
        let near = self.listing(&list, 0)?;
        let far = self.listing(&list, 0x10_0000)?;
        for (at, &i) in moving.iter().enumerate() {
            texts[i] = match (&near[at], &far[at]) {
                (Some(a), Some(b)) if a != b => Some(make_relative(a, at as u64 * 16)),
                (text, _) => text.clone(),
            };
        }
        Ok(words.iter().copied().zip(texts).collect())
    }

    fn group(&mut self, words: &[u128]) -> Result<Vec<(u128, Option<String>)>> {
        let probes: Vec<u128> = words.iter().map(|w| w & !(0x1f << 105) | (0x10 << 105)).collect();
        let (_, stderr) = self.run(&probes, 0)?;
        let mut out: Vec<(u128, Option<String>)> = words.iter().map(|&w| (w, None)).collect();
        for (index, line) in Self::errors(&stderr) {
            let name =
                line.split_once("Opclass '").and_then(|(_, rest)| rest.split_once('\'')).map(|(n, _)| n.to_owned());
            if let Some(slot) = out.get_mut(index) {
                slot.1 = name;
            }
        }
        Ok(out)
    }
}

/// Replaces the last hex number of a text by its distance from the next instruction, written `@-0x30`.
fn make_relative(text: &str, address: u64) -> Box<str> {
    let Some(at) = text.rfind("0x") else { return text.into() };
    let digits = text[at + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
    let Ok(value) = u64::from_str_radix(&text[at + 2..at + 2 + digits], 16) else { return text.into() };
    let negative = text[..at].ends_with('-');
    let value = if negative { value.wrapping_neg() } else { value } as i64;
    let distance = value.wrapping_sub(address as i64 + 16);
    let head = &text[..at - usize::from(negative)];
    let sign = if distance < 0 { "-" } else { "" };
    format!("{head}@{sign}{:#x}{}", distance.unsigned_abs(), &text[at + 2 + digits..]).into()
}

/// Whether a word has one of the opcodes that branch, call, return or exit.
pub fn moves_control(word: u128) -> bool {
    (0x140..0x160).contains(&(word & 0x1ff))
}
