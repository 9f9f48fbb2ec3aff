//! PTX under several ptxas: what each makes of it, kept side by side.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Compiles every PTX file below `inputs` with every ptxas, and says in `out/MANIFEST.tsv` which ones it accepted.
pub fn compile(inputs: &[PathBuf], out: &Path, ptxas: &[PathBuf], archs: &[String], flags: &[String]) -> Result<()> {
    let mut files = Vec::new();
    for input in inputs {
        collect(input, input.parent().unwrap_or(Path::new("")), &mut files)?;
    }
    files.sort();
    ensure!(!files.is_empty(), "no *.ptx in {inputs:?}");
    fs::create_dir_all(out)?;
    let mut manifest = File::create(out.join("MANIFEST.tsv"))?;
    writeln!(manifest, "path\tarch\tptxas\tflags\tresult")?;
    for tool in ptxas {
        let version = version(tool)?;
        for (file, name) in &files {
            let own = [target(file)?];
            for arch in if archs.is_empty() { &own[..] } else { archs } {
                let stem = out.join(&version).join(name).with_extension(format!("{arch}.cubin"));
                fs::create_dir_all(stem.parent().unwrap_or(out))?;
                let result = run(tool, file, arch, flags, &stem)?;
                writeln!(manifest, "{}\t{arch}\t{version}\t{}\t{result}", name.display(), flags.join(" "))?;
            }
        }
    }
    Ok(())
}

/// The files below `path` with their names relative to `root`.
fn collect(path: &Path, root: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
            collect(&entry?.path(), root, files)?;
        }
    } else if path.extension().is_some_and(|e| e == "ptx") {
        files.push((path.to_owned(), path.strip_prefix(root)?.to_owned()));
    }
    Ok(())
}

/// `Cuda compilation tools, release 13.4, V13.4.92` → `13.4.92`.
fn version(ptxas: &Path) -> Result<String> {
    let run =
        Command::new(ptxas).arg("--version").output().with_context(|| format!("cannot run {}", ptxas.display()))?;
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let version = said.split_whitespace().find_map(|word| word.strip_prefix('V').filter(|v| v.contains('.')));
    Ok(version.with_context(|| format!("{} does not say its version: {said}", ptxas.display()))?.to_owned())
}

/// The architecture of the file's own `.target sm_90a, debug` line.
fn target(file: &Path) -> Result<String> {
    let data = fs::read(file)?;
    let text = String::from_utf8_lossy(&data);
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(".target"));
    let arch = line.and_then(|rest| rest.split([',', ' ', '\t']).find(|word| word.starts_with("sm_")));
    Ok(arch.with_context(|| format!("{} has no .target sm_NN", file.display()))?.trim().to_owned())
}

/// Runs ptxas; leaves `<stem>.cubin` and `<stem>.log`, and gives `ok` or the first line of what it said.
fn run(ptxas: &Path, file: &Path, arch: &str, flags: &[String], cubin: &Path) -> Result<String> {
    let mut command = Command::new(ptxas);
    command.args(["-v", "-lineinfo"]).arg(format!("-arch={arch}")).args(flags).arg(file).arg("-o").arg(cubin);
    let run = command.output().with_context(|| format!("cannot run {}", ptxas.display()))?;
    fs::write(cubin.with_extension("log"), &run.stderr)?;
    if run.status.success() {
        return Ok("ok".to_owned());
    }
    let said = String::from_utf8_lossy(&run.stderr).into_owned() + &String::from_utf8_lossy(&run.stdout);
    Ok(said.lines().next().unwrap_or("it said nothing").replace('\t', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_read_from_the_directive() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("k.ptx");
        fs::write(&file, "// .target sm_1\n.version 8.0\n.target sm_90a, debug\n").unwrap();
        assert_eq!(target(&file).unwrap(), "sm_90a");
        fs::write(&file, ".version 8.0\n").unwrap();
        assert!(target(&file).unwrap_err().to_string().contains("has no .target"));
    }

    #[test]
    fn files_keep_their_folder_in_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let sub = folder.path().join("mma");
        fs::create_dir(&sub).unwrap();
        fs::write(sub.join("a.ptx"), "").unwrap();
        fs::write(sub.join("a.txt"), "").unwrap();
        let mut files = Vec::new();
        collect(&sub, folder.path(), &mut files).unwrap();
        assert_eq!(files, [(sub.join("a.ptx"), PathBuf::from("mma/a.ptx"))]);
    }
}
