//! The oracle for effects: words patched into a small cubin, and what `nvdisasm -c -lrm narrow` marks beside them.
//!
//! A row looks like `/*0040*/  STG.E desc[UR4][R2.64], R5 ;  // | 4  :vv v  | 2     vv  |`: v is a read, ^ a write, x both.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use goblin::elf::Elf;
use ptxinspect::base::{RegFile, RegSet};

use crate::oracle::moves_control;

/// What nvdisasm marks beside a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Marks {
    /// Registers marked v or x.
    pub reads: RegSet,
    /// Registers marked ^ or x.
    pub writes: RegSet,
}

/// A word's row: its marks and its text.
#[derive(Clone, Debug)]
pub struct Row {
    pub marks: Marks,
    pub text: Box<str>,
}

/// Patches words into a cubin and asks nvdisasm.
pub struct Probe {
    nvdisasm: PathBuf,
    cubin: Vec<u8>,
    /// File offset of the first slot, its pc, and the number of slots.
    offset: usize,
    first_pc: u32,
    slots: usize,
    filler: u128,
    /// `@P0 BRA` over the next instruction.
    around: u128,
    folder: tempfile::TempDir,
    known: HashMap<u128, Option<Row>>,
    /// Answers are kept here between runs.
    log: Option<std::fs::File>,
    /// Words asked and runs of nvdisasm.
    pub asked: usize,
    pub runs: usize,
}

/// Words that one run takes.
const SLOTS: usize = 16_000;

impl Probe {
    /// Makes the cubin to patch: straight code that stores a register, in as many instructions as there are slots.
    pub fn new(nvdisasm: &Path, ptxas: &Path, arch: &str, cache: Option<&Path>) -> Result<Probe> {
        let mut known = HashMap::new();
        let mut log = None;
        if let Some(cache) = cache {
            std::fs::create_dir_all(cache)?;
            let path = cache.join(format!("{arch}.rows"));
            for line in std::fs::read_to_string(&path).unwrap_or_default().lines() {
                if let Some((word, row)) = parse_kept(line) {
                    known.insert(word, row);
                }
            }
            log = Some(std::fs::OpenOptions::new().append(true).create(true).open(path)?);
        }
        let folder = tempfile::tempdir()?;
        let stores: String =
            (0..SLOTS + 16).map(|i| format!(" st.volatile.global.u32 [%rd1+{}], %r1;\n", i * 4)).collect();
        // The newest architectures need a newer PTX than the others.
        let version = if arch.starts_with("sm_107") { "9.4" } else { "9.0" };
        let ptx = format!(
            ".version {version}\n.target {arch}\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 q) {{\n \
             .reg .b32 %r<2>; .reg .b64 %rd<2>;\n ld.param.u64 %rd1, [p];\n ld.param.u32 %r1, [q];\n{stores} ret;\n}}\n"
        );
        let (source, image) = (folder.path().join("k.ptx"), folder.path().join("k.cubin"));
        std::fs::write(&source, ptx)?;
        let output = Command::new(ptxas).args(["-O1", "-arch", arch]).arg(&source).arg("-o").arg(&image).output()?;
        if !output.status.success() {
            bail!("{} cannot make a cubin for {arch}: {}", ptxas.display(), String::from_utf8_lossy(&output.stderr));
        }
        let cubin = std::fs::read(&image)?;
        let elf = Elf::parse(&cubin)?;
        let text = elf
            .section_headers
            .iter()
            .find(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(".text.k"))
            .context("the cubin has no section .text.k")?;
        // The first words set up addresses; a store in the middle fills unused slots.
        let start = text.sh_offset as usize;
        let filler = word_at(&cubin, start + 16 * 100).context("section .text.k is short")?;
        let sm: u32 = arch.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse().context("architecture")?;
        // Distances count four bytes; see sass::transfer for where they are.
        let around = 0x000f_e200_0380_0000_0000_0000_0000_0947 | if sm >= 90 { 4 << 16 } else { 4 << 34 };
        let first_pc = 16 * 8;
        let slots = SLOTS.min(text.sh_size as usize / 16 - 32);
        let offset = start + first_pc as usize;
        Ok(Probe {
            nvdisasm: nvdisasm.to_owned(),
            offset,
            first_pc,
            slots,
            filler,
            around,
            folder,
            cubin,
            known,
            log,
            asked: 0,
            runs: 0,
        })
    }

    /// Asks for all words that were not asked before.
    pub fn ask(&mut self, words: impl IntoIterator<Item = u128>) -> Result<()> {
        let mut fresh: Vec<u128> = words.into_iter().filter(|word| !self.known.contains_key(word)).collect();
        fresh.sort_unstable();
        fresh.dedup();
        // Words that move control take two slots each, so they go apart.
        let (jumps, straight): (Vec<u128>, Vec<u128>) = fresh.into_iter().partition(|word| moves_control(*word));
        for batch in straight.chunks(self.slots).chain(jumps.chunks(self.slots / 2)) {
            self.batch(batch)?;
            if let Some(log) = &mut self.log {
                let lines: String = batch.iter().filter_map(|word| Some(kept(*word, self.known.get(word)?))).collect();
                log.write_all(lines.as_bytes())?;
            }
        }
        Ok(())
    }

    /// The answer for a word: `None` when it is illegal, has no row, or was never asked.
    pub fn row(&self, word: u128) -> Option<&Row> {
        self.known.get(&word)?.as_ref()
    }

    fn batch(&mut self, words: &[u128]) -> Result<()> {
        let mut legal: Vec<u128> = words.to_vec();
        loop {
            if legal.is_empty() {
                return Ok(());
            }
            let stride = if moves_control(legal[0]) { 32 } else { 16 };
            let (ok, stdout, stderr) = self.run(&legal)?;
            if ok {
                let rows = read_rows(&stdout)?;
                for (i, &word) in legal.iter().enumerate() {
                    let pc = self.first_pc + stride * i as u32 + (stride - 16);
                    self.known.insert(word, rows.get(&pc).cloned());
                    self.asked += 1;
                }
                return Ok(());
            }
            let mut illegal: Vec<usize> = stderr
                .lines()
                .filter_map(|line| line.split("at address 0x").nth(1))
                .filter_map(|hex| u32::from_str_radix(hex.trim(), 16).ok())
                .filter_map(|pc| pc.checked_sub(self.first_pc))
                .map(|pc| (pc / stride) as usize)
                .filter(|&i| i < legal.len())
                .collect();
            illegal.sort_unstable();
            illegal.dedup();
            if illegal.is_empty() {
                if std::env::var_os("SASS_TABLES_DEBUG").is_some() {
                    eprintln!("{} words: {}", legal.len(), stderr.lines().next().unwrap_or(""));
                    if legal.len() == 1 {
                        eprintln!("  {:032x}", legal[0]);
                    }
                }
                // Something that nvdisasm does not give an address for: halve until it is alone.
                if let [word] = legal[..] {
                    self.known.insert(word, None);
                    return Ok(());
                }
                let (low, high) = legal.split_at(legal.len() / 2);
                let (low, high) = (low.to_vec(), high.to_vec());
                self.batch(&low)?;
                return self.batch(&high);
            }
            for i in illegal.into_iter().rev() {
                self.known.insert(legal.swap_remove(i), None);
            }
        }
    }

    fn run(&mut self, words: &[u128]) -> Result<(bool, String, String)> {
        let mut image = self.cubin.clone();
        // nvdisasm prints no line for code that nothing reaches: each word that moves control has a branch
        // around it before it.
        let apart = words.first().is_some_and(|word| moves_control(*word));
        for i in 0..self.slots {
            let word = match (apart, i) {
                (false, _) => words.get(i).copied(),
                (true, i) if i % 2 == 1 => words.get(i / 2).copied(),
                (true, i) => words.get(i / 2).map(|_| self.around),
            };
            let word = word.unwrap_or(self.filler);
            image[self.offset + 16 * i..][..16].copy_from_slice(&word.to_le_bytes());
        }
        let path = self.folder.path().join("t.cubin");
        std::fs::write(&path, image)?;
        let output = Command::new(&self.nvdisasm).args(["-c", "-lrm", "narrow"]).arg(&path).output()?;
        self.runs += 1;
        Ok((
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    }
}

/// `HEX`, and for a legal word its reads, writes and text.
fn kept(word: u128, row: &Option<Row>) -> String {
    let list =
        |set: &RegSet| -> String { set.iter_all().map(|(file, index)| format!("{}.{index} ", file as u8)).collect() };
    match row {
        None => format!("{word:032x}\n"),
        Some(row) => format!("{word:032x}\t{}\t{}\t{}\n", list(&row.marks.reads), list(&row.marks.writes), row.text),
    }
}

fn parse_kept(line: &str) -> Option<(u128, Option<Row>)> {
    let mut parts = line.split('\t');
    let word = u128::from_str_radix(parts.next()?, 16).ok()?;
    let Some(reads) = parts.next() else { return Some((word, None)) };
    let list = |text: &str| -> Option<RegSet> {
        let mut set = RegSet::EMPTY;
        for item in text.split_whitespace() {
            let (file, index) = item.split_once('.')?;
            set.insert(*RegFile::ALL.get(file.parse::<usize>().ok()?)?, index.parse().ok()?);
        }
        Some(set)
    };
    let marks = Marks { reads: list(reads)?, writes: list(parts.next()?)? };
    Some((word, Some(Row { marks, text: parts.next()?.into() })))
}

fn word_at(bytes: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_le_bytes(bytes.get(at..at + 16)?.try_into().ok()?))
}

/// Rows of a listing by pc. Columns are found by the header:
/// `// |   GPR     |   UGPR    |` names them, `// | # 012345  | # 012345  |` numbers them from 0 on.
fn read_rows(listing: &str) -> Result<HashMap<u32, Row>> {
    let mut columns: Vec<(RegFile, usize, usize)> = Vec::new();
    let mut names: Vec<RegFile> = Vec::new();
    let mut rows = HashMap::new();
    for line in listing.lines() {
        let Some(bar) = line.find("// |") else { continue };
        let table = &line[bar..];
        if names.is_empty() {
            names = table[4..]
                .split('|')
                .filter_map(|cell| match cell.trim() {
                    "GPR" => Some(RegFile::Gpr),
                    "PRED" => Some(RegFile::Pred),
                    "UGPR" => Some(RegFile::Ugpr),
                    "UPRED" => Some(RegFile::Upred),
                    _ => None,
                })
                .collect();
            continue;
        }
        if columns.is_empty() {
            if table.contains("# 0") {
                let starts = table.match_indices("# 0").map(|(at, _)| at + 2);
                for (file, from) in names.iter().zip(starts) {
                    let digits = table[from..].bytes().take_while(u8::is_ascii_digit).count();
                    columns.push((*file, from, digits));
                }
            }
            continue;
        }
        let Some((pc, rest)) = line.trim_start().strip_prefix("/*").and_then(|rest| rest.split_once("*/")) else {
            continue;
        };
        let Ok(pc) = u32::from_str_radix(pc, 16) else { continue };
        let text = rest[..rest.find("// |").unwrap_or(rest.len())].trim().trim_end_matches(';').trim();
        let mut marks = Marks::default();
        for &(file, from, count) in &columns {
            let cells = table.as_bytes().get(from..from + count).context("a row is shorter than its header")?;
            for (i, mark) in cells.iter().enumerate() {
                if matches!(mark, b'v' | b'x') {
                    marks.reads.insert(file, i as u16);
                }
                if matches!(mark, b'^' | b'x') {
                    marks.writes.insert(file, i as u16);
                }
            }
        }
        rows.insert(pc, Row { marks, text: text.into() });
    }
    Ok(rows)
}
