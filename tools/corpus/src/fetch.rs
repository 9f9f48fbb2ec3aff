//! A package's cubins: pip brings the wheel, cuobjdump opens the libraries in it.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Smaller members of a wheel hold no device code worth opening.
const SMALLEST_LIBRARY: u64 = 20_000;

/// Where packages come from and how they are opened.
pub struct Source {
    pub python: PathBuf,
    pub cuobjdump: PathBuf,
    /// Bytes of cubins kept for one architecture of a package.
    pub limit: u64,
}

impl Source {
    /// Downloads `package`, extracts its cubins into `out/<package>` and adds them to `out/MANIFEST.tsv`.
    pub fn fetch(&self, package: &str, out: &Path) -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let wheel = self.download(package, scratch.path())?;
        let folder = out.join(package);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut kept = Kept::new(package, &folder, self.limit);
        let mut archive = zip::ZipArchive::new(File::open(&wheel)?).with_context(|| wheel.display().to_string())?;
        for index in 0..archive.len() {
            let mut member = archive.by_index(index)?;
            let name = member.name()?.into_owned();
            if member.size() < SMALLEST_LIBRARY || !holds_device_code(&name) {
                continue;
            }
            let library = scratch.path().join("library");
            io::copy(&mut member, &mut File::create(&library)?)?;
            if name.ends_with(".cubin") {
                kept.keep(&library, &name)?;
                continue;
            }
            let extracted = scratch.path().join("extracted");
            fs::create_dir_all(&extracted)?;
            self.extract(&library, &name, &extracted)?;
            let mut cubins: Vec<_> =
                fs::read_dir(&extracted)?.map(|e| e.map(|e| e.path())).collect::<io::Result<_>>()?;
            cubins.sort();
            for cubin in &cubins {
                kept.keep(cubin, &cubin.to_string_lossy())?;
            }
            fs::remove_dir_all(&extracted)?;
        }
        kept.write_manifest(out)
    }

    fn download(&self, package: &str, folder: &Path) -> Result<PathBuf> {
        let status = Command::new(&self.python)
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"])
            .arg(folder)
            .arg(package)
            .status()
            .with_context(|| format!("cannot run {}", self.python.display()))?;
        ensure!(status.success(), "pip cannot download {package}");
        let wheel = fs::read_dir(folder)?
            .filter_map(|e| Some(e.ok()?.path()))
            .find(|p| p.extension().is_some_and(|e| e == "whl"));
        wheel.with_context(|| format!("pip left no wheel of {package}"))
    }

    /// cuobjdump writes `<name>.<n>.<arch>.cubin` into its working folder. It fails on libraries without device code and on
    /// other vendors' ones, which is no reason to stop: it is said, and the next library is opened.
    fn extract(&self, library: &Path, name: &str, folder: &Path) -> Result<()> {
        let run = Command::new(&self.cuobjdump).args(["-xelf", "all"]).arg(library).current_dir(folder).output();
        let run = run.with_context(|| format!("cannot run {}", self.cuobjdump.display()))?;
        if !run.status.success() {
            eprintln!("{name}: {}", String::from_utf8_lossy(&run.stderr).trim());
        }
        Ok(())
    }
}

fn holds_device_code(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.contains(".so") || [".a", ".o", ".fatbin", ".cubin", ".dll"].iter().any(|end| file.ends_with(end))
}

/// The cubins of one package that were worth keeping.
struct Kept<'a> {
    package: &'a str,
    folder: &'a Path,
    limit: u64,
    bytes: BTreeMap<String, u64>,
    seen: HashSet<Vec<u8>>,
    rows: Vec<String>,
}

impl<'a> Kept<'a> {
    fn new(package: &'a str, folder: &'a Path, limit: u64) -> Self {
        Kept { package, folder, limit, bytes: BTreeMap::new(), seen: HashSet::new(), rows: Vec::new() }
    }

    fn keep(&mut self, cubin: &Path, name: &str) -> Result<()> {
        let mut data = Vec::new();
        File::open(cubin)?.read_to_end(&mut data)?;
        let arch = arch_in(name).unwrap_or("unknown").to_owned();
        let bytes = self.bytes.entry(arch.clone()).or_default();
        if *bytes >= self.limit || code_words(&data).is_none_or(|words| words == 0) || self.seen.contains(&data) {
            return Ok(());
        }
        *bytes += data.len() as u64;
        let file = format!("{}.{arch}.cubin", self.rows.len());
        fs::write(self.folder.join(&file), &data)?;
        let words = code_words(&data).unwrap_or(0);
        self.rows.push(format!("{0}/{file}\t{arch}\t{0}\t{words}", self.package));
        self.seen.insert(data);
        Ok(())
    }

    fn write_manifest(&self, out: &Path) -> Result<()> {
        let path = out.join("MANIFEST.tsv");
        let fresh = !path.exists();
        let mut manifest = File::options().create(true).append(true).open(&path)?;
        if fresh {
            writeln!(manifest, "path\tarch\tlibrary\tinstructions")?;
        }
        for row in &self.rows {
            writeln!(manifest, "{row}")?;
        }
        println!("{}: {} cubins, {} bytes", self.package, self.rows.len(), self.bytes.values().sum::<u64>());
        Ok(())
    }
}

/// `libfoo.3.sm_90a.cubin` → `sm_90a`.
fn arch_in(name: &str) -> Option<&str> {
    let start = name.rfind("sm_")?;
    let rest = &name[start..];
    let end = rest[3..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(rest.len(), |n| n + 3);
    Some(&rest[..end])
}

/// The number of 16-byte words in the `.text` sections of a cubin; `None` when it is no 64-bit ELF.
fn code_words(data: &[u8]) -> Option<u64> {
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let field = data.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    if data.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (table, entry, count, names) = (number(40, 8)?, number(58, 2)?, number(60, 2)?, number(62, 2)?);
    let header = |index: u64| usize::try_from(index.checked_mul(entry)?.checked_add(table)?).ok();
    let strings = number(header(names)? + 24, 8)?;
    let mut words = 0;
    for index in 0..count {
        let at = header(index)?;
        let name = usize::try_from(strings.checked_add(number(at, 4)?)?).ok()?;
        if data.get(name..)?.starts_with(b".text") {
            words += number(at + 32, 8)? / 16;
        }
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architecture_is_read_from_the_name() {
        assert_eq!(arch_in("libfoo.3.sm_90a.cubin"), Some("sm_90a"));
        assert_eq!(arch_in("deep/sm_80/x.12.sm_100f"), Some("sm_100f"));
        assert_eq!(arch_in("plain.cubin"), None);
    }

    #[test]
    fn words_of_what_is_no_cubin_are_unknown() {
        assert_eq!(code_words(b""), None);
        assert_eq!(code_words(b"\x7fELF\x02"), None);
        let mut header = b"\x7fELF\x02".to_vec();
        header.resize(64, 0xff);
        assert_eq!(code_words(&header), None);
    }

    #[test]
    fn libraries_are_told_from_other_files() {
        assert!(holds_device_code("nvidia/lib/libcufft.so.12"));
        assert!(!holds_device_code("nvidia/include/cufft.h"));
    }
}
