//! Every pc's PTX line and source line against nvdisasm, recorded and live.
//!
//! Recorded: the cubins of `testdata/cubin`, each with nvdisasm's annotations as NAME.lines (`scripts/record-cubins`). Live:
//! `PTXINSPECT_NVDISASM` names nvdisasm 13, `PTXINSPECT_CUBINS` folders of cubins (separated by `:`); without them SKIPPED.

use std::collections::HashMap;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ptxinspect::base::Pc;
use ptxinspect::cubin::Image;
use ptxinspect::cubin::lines::LineTable;

/// How long nvdisasm may take for one cubin.
const PATIENCE: Duration = Duration::from_secs(120);

/// A place as nvdisasm prints it: file and line, innermost first.
type Chain = Vec<(String, u32)>;

/// Annotations of one kind, each with the instruction after it.
type Annotations = Vec<(u32, Chain)>;

/// What nvdisasm says of a section: where annotations of either kind were printed, and the last instruction.
///
/// An annotation holds until the next one. It is not repeated while file and line stay the same, even where the call sites
/// change, so that only the instruction right after it tells them.
#[derive(Default)]
struct Said {
    ptx: Annotations,
    source: Annotations,
    last: Option<u32>,
}

/// The annotation in force at a pc, and whether it was printed there.
fn in_force(said: &[(u32, Chain)], pc: u32) -> (&[(String, u32)], bool) {
    match said.partition_point(|(at, _)| *at <= pc).checked_sub(1).and_then(|at| said.get(at)) {
        Some((at, chain)) => (chain, *at == pc),
        None => (&[], false),
    }
}

/// What nvdisasm prints; `None` when it fails or, as 13.4 does on some line tables, goes round in circles.
fn listing(nvdisasm: &str, option: &str, cubin: &Path) -> Option<String> {
    let mut text = tempfile::tempfile().ok()?;
    let stdout = text.try_clone().ok()?;
    let mut child =
        Command::new(nvdisasm).args(["-c", option]).arg(cubin).stdout(stdout).stderr(Stdio::null()).spawn().ok()?;
    let start = Instant::now();
    let status = loop {
        match child.try_wait().ok()? {
            Some(status) => break status,
            None if start.elapsed() > PATIENCE => {
                child.kill().ok()?;
                break child.wait().ok()?;
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut bytes = Vec::new();
    text.rewind().ok()?;
    text.read_to_end(&mut bytes).ok()?;
    status.success().then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// The annotations of `nvdisasm -c -gp` or `-gi`, and the last instruction, for each section.
fn disassemble(nvdisasm: &str, option: &str, cubin: &Path) -> Option<HashMap<String, (Annotations, u32)>> {
    let text = listing(nvdisasm, option, cubin)?;
    let mut sections = HashMap::new();
    let mut section: &mut (Annotations, u32) = sections.entry(String::new()).or_default();
    let mut chain = Chain::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("//--------------------- ") {
            section = sections.entry(rest.split_whitespace().next().unwrap_or_default().to_owned()).or_default();
        } else if let Some(rest) = line.strip_prefix("//## File \"") {
            // //## File "a.cuh", line 4 inlined at "b.cu", line 9
            let (file, rest) = rest.split_once("\", line ").expect("a line annotation names a file");
            let number = rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
            chain.push((file.to_owned(), number.expect("a line annotation has a line")));
        } else if let Some((pc, _)) = line.strip_prefix("/*").and_then(|rest| rest.split_once("*/"))
            && let Ok(pc) = u32::from_str_radix(pc, 16)
        {
            section.1 = pc;
            if !chain.is_empty() {
                section.0.push((pc, std::mem::take(&mut chain)));
            }
        }
    }
    Some(sections)
}

/// Both kinds of annotations, live.
fn ask(nvdisasm: &str, cubin: &Path) -> Option<HashMap<String, Said>> {
    let ptx = disassemble(nvdisasm, "-gp", cubin)?;
    let mut source = disassemble(nvdisasm, "-gi", cubin)?;
    let join = |(section, (ptx, last))| {
        let source = source.remove(&section).unwrap_or_default().0;
        (section, Said { ptx, source, last: Some(last) })
    };
    Some(ptx.into_iter().map(join).collect())
}

/// Both kinds of annotations out of NAME.lines: `p PC LINE`, `s PC FILE:LINE FILE:LINE`, `end PC` under a section's name.
fn recorded(text: &str) -> HashMap<String, Said> {
    let mut sections: HashMap<String, Said> = HashMap::new();
    let mut section = String::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (kind, pc) = (words.next().unwrap_or_default(), words.next());
        let Some(pc) = pc else {
            section = kind.to_owned();
            continue;
        };
        let pc = u32::from_str_radix(pc, 16).expect("a record has a pc");
        let said = sections.entry(section.clone()).or_default();
        let place = |word: &str| {
            let (file, line) = word.rsplit_once(':').unwrap_or(("", word));
            (file.to_owned(), line.parse().expect("a place has a line"))
        };
        match kind {
            "p" => said.ptx.push((pc, words.map(place).collect())),
            "s" => said.source.push((pc, words.map(place).collect())),
            _ => said.last = Some(pc),
        }
    }
    sections
}

/// What was compared, and what differed.
#[derive(Default)]
struct Tally {
    cubins: usize,
    instructions: usize,
    chains: usize,
    wrong: Vec<String>,
}

impl Tally {
    fn compare(&mut self, path: &Path, said: &HashMap<String, Said>, image: &Image<'_>) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let lines = LineTable::parse(image);
        self.cubins += 1;
        self.wrong.extend(image.problems.iter().chain(&lines.problems).map(|problem| format!("{name}: {problem}")));
        for function in &image.functions {
            let section = image.section(function.section).map(|s| s.name.to_string()).unwrap_or_default();
            let table = lines.function(function);
            let Some(said) = said.get(&section).filter(|s| s.last == Some(function.code.len() as u32 - 16)) else {
                self.wrong.push(format!("{name}: nvdisasm sees other instructions in {section}"));
                continue;
            };
            for pc in (0..function.code.len() as u32).step_by(16) {
                self.instructions += 1;
                let found = table.and_then(|t| t.ptx_line(Pc(pc))).map(|l| l.0);
                let expected = in_force(&said.ptx, pc).0.first().map(|(_, line)| *line);
                if found != expected {
                    self.wrong.push(format!("{name} {section} {pc:x}: PTX line {found:?}, nvdisasm {expected:?}"));
                }
                let found: Chain = table.and_then(|t| t.source_at(Pc(pc))).map_or_else(Vec::new, |at| {
                    let sites = at.inlined_at.iter().map(|site| (site.file.to_owned(), site.line.0));
                    std::iter::once((at.file.to_owned(), at.line.0)).chain(sites).collect()
                });
                let (expected, printed) = in_force(&said.source, pc);
                let depth = if printed { usize::MAX } else { 1 };
                self.chains += usize::from(printed);
                if !found.iter().take(depth).eq(expected.iter().take(depth)) {
                    self.wrong.push(format!("{name} {section} {pc:x}: source {found:?}, nvdisasm {expected:?}"));
                }
            }
        }
    }

    fn report(self) {
        let Tally { cubins, instructions, chains, wrong } = self;
        println!(
            "{cubins} cubins, {instructions} instructions, {chains} printed source places, {} differ",
            wrong.len()
        );
        for line in wrong.iter().take(40) {
            println!("{line}");
        }
        assert!(cubins > 0, "no cubin to compare");
        assert!(wrong.is_empty(), "{} differences", wrong.len());
    }
}

fn cubins(mut folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "cubin") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[test]
fn recorded_cubins_have_nvdisasms_lines() {
    let mut tally = Tally::default();
    for path in cubins(vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/cubin"))]) {
        let Ok(text) = std::fs::read_to_string(path.with_extension("lines")) else { continue };
        let bytes = std::fs::read(&path).expect("a cubin can be read");
        tally.compare(&path, &recorded(&text), &Image::parse(&bytes).expect("a recorded cubin can be parsed"));
    }
    tally.report();
}

#[test]
fn live_cubins_have_nvdisasms_lines() {
    let (Ok(nvdisasm), Some(folders)) = (std::env::var("PTXINSPECT_NVDISASM"), std::env::var_os("PTXINSPECT_CUBINS"))
    else {
        eprintln!("SKIPPED: set PTXINSPECT_NVDISASM and PTXINSPECT_CUBINS to compare more cubins with nvdisasm");
        return;
    };
    let mut tally = Tally::default();
    for path in cubins(std::env::split_paths(&folders).collect()) {
        let bytes = std::fs::read(&path).expect("a cubin can be read");
        let Ok(image) = Image::parse(&bytes) else { continue };
        // nvdisasm 13 knows sm_75 and later.
        if image.arch.sm < 75 {
            continue;
        }
        match ask(&nvdisasm, &path) {
            Some(said) => tally.compare(&path, &said, &image),
            None => eprintln!("SKIPPED: {}: nvdisasm fails", path.display()),
        }
    }
    tally.report();
}
