//! nvdisasm, for comparison: finds it, runs it on a cubin, reads its listing.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::find::is_executable;
use super::process;
use super::{Env, candidates, python};
use crate::files::Scratch;

/// An instruction as nvdisasm shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its text, less the closing ` ;`.
    pub text: String,
    /// Live GPR, PRED, UGPR and UPRED; none where it prints no counts.
    pub live: Option<[u16; 4]>,
}

/// The rows of each code section by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    sections: BTreeMap<String, BTreeMap<u32, Row>>,
}

/// Why there is no listing of nvdisasm's.
#[derive(Debug, thiserror::Error)]
pub enum NvdisasmError {
    /// There is none.
    #[error(
        "no nvdisasm was found in PTXINSPECT_NVDISASM (not set), on PATH, beside a ptxas or in the Python in use: `pip install nvidia-cuda-nvdisasm` gets one"
    )]
    NotFound,
    /// The file that is named is no program.
    #[error("{} cannot be run: expected the nvdisasm executable (named by {name})", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// What names it.
        name: &'static str,
    },
    /// It could not be started, or given its file.
    #[error("cannot run {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It did not do its work.
    #[error("{} {what}{}", path.display(), said(.output))]
    Failed {
        /// The file.
        path: PathBuf,
        /// What it did instead.
        what: String,
        /// What it said.
        output: String,
    },
}

/// The first line of what a program said.
fn said(output: &str) -> String {
    output.lines().find(|line| !line.trim().is_empty()).map(|line| format!(": {}", line.trim())).unwrap_or_default()
}

const NVDISASM: &str = if cfg!(windows) { "nvdisasm.exe" } else { "nvdisasm" };
/// How much of a listing is kept; 106,304 instructions with counts make 120 MB.
const KEEP_BYTES: usize = 1 << 30;
const VARIABLE: &str = "PTXINSPECT_NVDISASM";
/// Names inside the temporary folder, so that no path of this machine gets into an error.
const CUBIN: &str = "input.cubin";

/// Finds nvdisasm: the one that the environment or the user's configuration names, on `PATH`, beside a ptxas, or in a Python wheel.
pub fn find(env: &Env) -> Result<PathBuf, NvdisasmError> {
    let named = match (env.var(VARIABLE), &env.config.nvdisasm) {
        (Some(value), _) => Some((PathBuf::from(value), VARIABLE)),
        (None, Some(path)) => Some((path.clone(), "the user's configuration")),
        (None, None) => None,
    };
    if let Some((path, name)) = named {
        let file = env.program(&path).filter(|file| is_executable(file));
        return file.ok_or(NvdisasmError::NotExecutable { path, name });
    }
    let beside = || candidates(env).into_iter().filter_map(|ptxas| ptxas.path.parent().map(Path::to_owned));
    let folders = env.path_folders().into_iter().chain(std::iter::once_with(beside).flatten());
    let wheels = || python::wheels(env, NVDISASM).into_iter().map(|wheel| wheel.path);
    let mut files = folders.map(|folder| folder.join(NVDISASM)).chain(std::iter::once_with(wheels).flatten());
    files.find(|file| is_executable(file)).ok_or(NvdisasmError::NotFound)
}

/// Has the nvdisasm of a path list a cubin, with live counts where it prints them.
pub fn disassemble(path: &Path, cubin: &[u8], timeout: Option<Duration>, env: &Env) -> Result<Listing, NvdisasmError> {
    let io_error = |source| NvdisasmError::Io { path: path.to_owned(), source };
    let folder = Scratch::new_in(&env.temp_dir, "ptxinspect-").map_err(io_error)?;
    std::fs::write(folder.path().join(CUBIN), cubin).map_err(io_error)?;
    let run = |counts: &[&str]| {
        let mut command = Command::new(path);
        command.arg("-c").args(counts).arg(CUBIN).current_dir(folder.path());
        process::start(&mut command, KEEP_BYTES)
            .and_then(|running| running.finish(timeout, &mut |_| {}))
            .map_err(io_error)
    };
    let mut ended = run(&["-lrm", "count"])?;
    // nvdisasm 13 prints nothing at all where it has no counts, for cubins of ABI 7.
    if ended.stopped.is_none() && (!ended.status.success() || Listing::parse(&ended.output).sections.is_empty()) {
        ended = run(&[])?;
    }
    let failed = |what: String, output: String| Err(NvdisasmError::Failed { path: path.to_owned(), what, output });
    if ended.stopped.is_some() {
        return failed("was stopped: it ran too long or printed too much".to_owned(), String::new());
    }
    if ended.cut_bytes > 0 {
        return failed("prints more than is kept: extract the kernel's own cubin first".to_owned(), String::new());
    }
    if !ended.status.success() {
        return failed(format!("failed with {}", ended.status), ended.output);
    }
    let listing = Listing::parse(&ended.output);
    if listing.sections.is_empty() {
        return failed("lists no instruction".to_owned(), ended.output);
    }
    Ok(listing)
}

impl Listing {
    /// Reads what `nvdisasm -c` prints, with `-lrm count` or without.
    ///
    /// `/*0040*/ STG.E desc[UR4][R2.64], R5 ; // | 4 | | 2 |`, under a header that names the columns.
    pub fn parse(text: &str) -> Listing {
        let mut listing = Listing::default();
        let mut section = String::new();
        let mut columns: Vec<usize> = Vec::new();
        for line in text.lines() {
            let line = line.trim_start();
            // Not `.sectioninfo`.
            if let Some(rest) = line.strip_prefix(".section").filter(|rest| rest.starts_with(char::is_whitespace)) {
                section = rest.trim().split(',').next().unwrap_or("").trim_matches('"').to_owned();
                columns.clear();
                continue;
            }
            let (shown, counts) = match line.split_once("// |") {
                Some((shown, counts)) => (shown, Some(counts)),
                None => (line, None),
            };
            let cells: Vec<&str> = counts.into_iter().flat_map(|counts| counts.split('|')).map(str::trim).collect();
            if columns.is_empty() && !cells.is_empty() {
                let column = |cell: &&str| ["GPR", "PRED", "UGPR", "UPRED"].iter().position(|name| name == cell);
                columns = cells.iter().filter_map(column).collect();
                continue;
            }
            let Some((pc, text)) = shown.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) else { continue };
            let Ok(pc) = u32::from_str_radix(pc, 16) else { continue };
            let mut live = [0; 4];
            for (&column, cell) in columns.iter().zip(&cells) {
                live[column] = cell.parse().unwrap_or(0);
            }
            // Some texts end with a blank of their own.
            let text = text.split_once("(*").map_or(text, |(text, _remark)| text).trim();
            let text = text.strip_suffix(';').unwrap_or(text);
            let text = text.strip_suffix(' ').unwrap_or(text).to_owned();
            let row = Row { text, live: counts.map(|_| live) };
            listing.sections.entry(section.clone()).or_default().insert(pc, row);
        }
        listing
    }

    /// The row of an instruction.
    pub fn row(&self, section: &str, pc: u32) -> Option<&Row> {
        self.sections.get(section)?.get(&pc)
    }

    /// All sections and their rows by address.
    pub fn sections(&self) -> &BTreeMap<String, BTreeMap<u32, Row>> {
        &self.sections
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\t.section\t.text.k,\"ax\",@progbits\n\t.sectioninfo @\"SHI_REGISTERS=8\"\n\
        .text.k:                    // |  GPR   | PRED | UGPR | UPRED |\n\
        \x20       /*0000*/                   LDC R1, c[0x0][0x37c] ;    // |   1    |      |      |       |\n\
        \x20       /*0010*/              @!P0 BRA `(.L_x_1) ;            // |   2    |  1   |      |       |\n";

    #[test]
    fn rows_have_text_and_counts() {
        let listing = Listing::parse(TEXT);
        let row = listing.row(".text.k", 16).unwrap();
        assert_eq!((row.text.as_str(), row.live), ("@!P0 BRA `(.L_x_1)", Some([2, 1, 0, 0])));
        assert_eq!(listing.sections()[".text.k"].len(), 2);
    }

    #[test]
    fn texts_are_without_remarks_and_the_closing_mark() {
        let text = |line: &str| Listing::parse(line).row("", 0).unwrap().text.clone();
        assert_eq!(text("/*0000*/  STL.64 [R1+0x278], R4     (*\"SpillRefill\"*) ;"), "STL.64 [R1+0x278], R4");
        assert_eq!(text("/*0000*/  MUFU.RSQ R4, -QNAN  ;"), "MUFU.RSQ R4, -QNAN ");
        assert_eq!(text("/*0000*/  NOP;"), "NOP");
    }

    #[test]
    fn without_counts_there_are_none() {
        let plain: String = TEXT.lines().map(|line| format!("{}\n", line.split("// |").next().unwrap())).collect();
        let listing = Listing::parse(&plain);
        assert_eq!(listing.row(".text.k", 0).unwrap(), &Row { text: "LDC R1, c[0x0][0x37c]".to_owned(), live: None });
    }
}
