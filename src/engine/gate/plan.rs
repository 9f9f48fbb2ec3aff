//! What to measure, under which names: arguments and policy made one.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};

use super::Request;
use super::inputs;
use crate::base::{Arch, Threads};
use crate::cache::Cache;
use crate::engine::cache;
use crate::engine::compile::{Session, environment};
use crate::engine::input;
use crate::engine::settings::Settings;
use crate::gate::{Glob, InputPattern, Metric, Policy, UNKNOWN_ARCH};
use crate::report::{Costs, Effort, LaunchHints, Wanted};
use crate::toolchain::{self, Config, VersionRequest};

/// The policy's file name.
const POLICY: &str = "ptxinspect.toml";
/// The baseline's file name.
const BASELINE: &str = "ptxinspect.lock.json";

/// One file to measure.
#[derive(Debug)]
pub struct Input {
    /// Where it is, as seen from here.
    pub path: PathBuf,
    /// What the baseline calls it.
    pub name: String,
    /// What to compile it for; none stands for its own `.target`.
    pub arches: Vec<Option<Arch>>,
}

/// Everything decided, nothing done.
pub struct Plan {
    /// What is agreed on, with what the arguments add.
    pub policy: Policy,
    /// The baseline.
    pub baseline: PathBuf,
    /// The baseline as the user would name it.
    pub baseline_name: String,
    /// The folder that names in the baseline are relative to.
    pub root: PathBuf,
    /// What to measure.
    pub inputs: Vec<Input>,
    /// One for each ptxas.
    pub sessions: Vec<Session>,
    /// What each of them was asked for by; none for the one at hand.
    pub ptxas: Vec<Option<String>>,
    /// Which kernels.
    pub kernels: Vec<Glob>,
    /// Whether improvements must be recorded.
    pub ratchet: bool,
    /// Whether the inputs came from the command line.
    pub some_inputs: bool,
    /// Whether the architectures did.
    pub some_arches: bool,
    /// Whether the ptxas did.
    pub some_ptxas: bool,
    /// What of the command line a repetition needs.
    repeat: Vec<String>,
    /// What ptxas has made before.
    pub cache: Option<Arc<Cache>>,
    flags: Vec<String>,
    several_ptxas: bool,
}

impl Plan {
    /// Reads the policy, finds the inputs.
    pub fn new(args: &Request) -> Result<Plan> {
        let here = std::env::current_dir().context("the current folder cannot be told")?;
        let (mut policy, folder) = read_policy(args, &here)?;
        for text in &args.deny {
            policy.deny.push(text.parse().map_err(|error| anyhow!("--deny: {error}"))?);
        }
        let base = folder.clone().unwrap_or_else(|| here.clone());
        let baseline = match (&args.baseline, &policy.baseline) {
            (Some(path), _) => normal(&here.join(path)),
            (None, path) => {
                let path = path.as_deref().unwrap_or(BASELINE);
                let what = format!("the baseline \"{path}\"");
                inside(Path::new(path), &base, &what, "--baseline FILE names one anywhere")?
            }
        };
        let root = baseline.parent().map_or_else(|| here.clone(), Path::to_path_buf);
        let some_inputs = !args.inputs.is_empty();
        let own_arches = matching(&policy, &base, &here, !some_inputs)?;
        let paths = if some_inputs { input::files(&args.inputs) } else { own_arches.keys().cloned().collect() };
        if paths.is_empty() {
            bail!("there is nothing to measure: name PTX files or cubins, or list inputs in {POLICY}");
        }
        let arch = if args.arch.is_empty() { policy.arch.clone() } else { args.arch.clone() };
        let ptxas = if args.ptxas.is_empty() { policy.ptxas.clone() } else { args.ptxas.clone() };
        let flags = if args.flags.is_empty() { policy.flags.clone() } else { args.flags.clone() };
        let requests: Vec<Option<String>> =
            if ptxas.is_empty() { vec![None] } else { ptxas.iter().cloned().map(Some).collect() };
        let cache = if args.no_cache { None } else { cache::of(&environment()?, args.told)? };
        let session = |ptxas: &Option<String>| {
            let mut session = Session::new(&Settings {
                inputs: paths.clone(),
                arch: arch.clone(),
                ptxas: ptxas.clone(),
                limits: args.limits,
                kernel: Vec::new(),
                jobs: args.jobs,
                within: args.within.clone(),
                flags: flags.clone(),
                offline: args.offline,
            })?;
            session.installing = args.installing;
            session.launch = LaunchHints {
                threads: args.threads.or(policy.threads.map(Threads::from)),
                smem_dynamic_bytes: args.smem_dynamic.or(policy.smem_dynamic),
                effort: Effort::of(args.thorough),
            };
            let costs = if policy.asks_for(Metric::LoopCycles) { Costs::Loops } else { Costs::None };
            session.wanted = Wanted { live_values: false, costs, ..Wanted::ALL };
            session.cache.clone_from(&cache);
            anyhow::Ok(session)
        };
        let sessions = requests.iter().map(session).collect::<Result<Vec<_>>>()?;
        let names = names(&paths, &here, &root);
        let mut inputs = Vec::new();
        for (path, name) in paths.into_iter().zip(names) {
            let own = own_arches.get(&relative(&here.join(&path), &here)).filter(|own| !own.is_empty());
            let of_input = own.filter(|_| args.arch.is_empty()).unwrap_or(&arch);
            let mut arches = of_input
                .iter()
                .map(|arch| Ok(Some(arch.trim().parse::<Arch>()?)))
                .collect::<Result<Vec<Option<Arch>>>>()?;
            arches.dedup();
            if arches.is_empty() {
                arches.push(None);
            }
            inputs.push(Input { path, name, arches });
        }
        let mut seen = BTreeMap::new();
        for input in &inputs {
            if let Some(other) = seen.insert(&input.name, &input.path) {
                let (a, b) = (other.display(), input.path.display());
                bail!("{a} and {b} would both be called {} in the baseline", input.name);
            }
        }
        let several_ptxas = sessions.len() > 1;
        Ok(Plan {
            baseline_name: relative(&baseline, &here).display().to_string(),
            baseline,
            root,
            inputs,
            sessions,
            ptxas: requests,
            kernels: args.kernel.iter().map(Glob::new).collect(),
            ratchet: args.ratchet || policy.ratchet,
            some_inputs,
            some_arches: !args.arch.is_empty(),
            some_ptxas: !args.ptxas.is_empty(),
            repeat: repeated(args),
            flags: args.flags.clone(),
            several_ptxas,
            cache,
            policy,
        })
    }

    /// How many builds there are: every input for every architecture with every ptxas.
    pub fn builds(&self) -> u64 {
        let total: usize = self.inputs.iter().map(|input| input.arches.len()).sum();
        (total * self.sessions.len()) as u64
    }

    /// The command that measures one unit again.
    pub fn command(&self, path: &str, arch: &str, ptxas: Option<&str>) -> String {
        // A file in a checkout may be called --ptxas=evil.ptx.
        let input = if path.starts_with('-') && path != "-" { format!("./{path}") } else { path.to_owned() };
        let mut words = vec!["ptxinspect".to_owned(), "gate".to_owned(), input];
        let cubin = Path::new(path).extension().is_some_and(|extension| extension == "cubin");
        // A file that cannot be read has no architecture.
        if !cubin && arch != UNKNOWN_ARCH {
            words.extend(["--arch".to_owned(), arch.to_owned()]);
        }
        if let Some(version) = ptxas.filter(|_| self.several_ptxas) {
            words.extend(["--ptxas".to_owned(), version.to_owned()]);
        }
        words.extend(self.repeat.iter().cloned());
        if !self.flags.is_empty() {
            words.push("--".to_owned());
            words.extend(self.flags.iter().cloned());
        }
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// The arguments that decide what is compared with what.
fn repeated(args: &Request) -> Vec<String> {
    let mut words = Vec::new();
    let mut add = |flag: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([flag.to_owned(), value]);
        }
    };
    add("--baseline", args.baseline.as_ref().map(|path| path.display().to_string()));
    add("--policy", args.policy.as_ref().map(|path| path.display().to_string()));
    add("--ptxas", args.ptxas.first().filter(|_| args.ptxas.len() == 1).cloned());
    add("--deny", (!args.deny.is_empty()).then(|| args.deny.join(",")));
    add("--threads", args.threads.map(|threads| threads.to_string()));
    add("--smem-dynamic", args.smem_dynamic.map(|bytes| bytes.to_string()));
    words
}

/// A word as a POSIX shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=+:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The policy and its folder; none of the latter where there is no policy.
fn read_policy(args: &Request, here: &Path) -> Result<(Policy, Option<PathBuf>)> {
    let path = match &args.policy {
        Some(path) => Some(normal(&here.join(path))),
        None => nearest_policy(here)?,
    };
    let Some(path) = path else { return Ok((Policy::standard(), None)) };
    let shown = relative(&path, here).display().to_string();
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read the policy {shown}"))?;
    let policy = Policy::parse(&text).with_context(|| format!("the policy {shown} cannot be used"))?;
    check_programs(&policy).with_context(|| format!("the policy {shown} cannot be used"))?;
    Ok((policy, path.parent().map(Path::to_path_buf)))
}

/// The policy here or in a folder above. One that cannot be looked at is not one that is not there: a gate without its policy
/// would pass.
fn nearest_policy(here: &Path) -> Result<Option<PathBuf>> {
    use std::io::ErrorKind;
    for path in here.ancestors().map(|folder| folder.join(POLICY)) {
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {
                let folder = path.parent().unwrap_or(here);
                let instead = "--policy FILE names one anywhere";
                return inside(Path::new(POLICY), folder, "the policy", instead).map(Some);
            }
            Ok(_) => {}
            // A folder that this user may not look into holds no policy of theirs.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {}
            Err(error) => return Err(error).with_context(|| format!("cannot look for the policy {}", path.display())),
        }
    }
    Ok(None)
}

/// A policy comes with a checkout, and nothing in a checkout decides which program runs or what that reads and writes: it names
/// ptxas by version, and gives it flags that name no file.
fn check_programs(policy: &Policy) -> Result<()> {
    for text in &policy.ptxas {
        if text.parse::<VersionRequest>().is_err() {
            let file = Config::file(&environment()?).map_or_else(
                || "the user's own configuration".to_owned(),
                |file| format!("`ptxas = \"…\"` in {}", file.display()),
            );
            bail!(
                "ptxas = \"{text}\" is not a version: expected one such as \"13.4\", since a project's configuration names no \
                 program to run; a path goes to --ptxas, to PTXINSPECT_PTXAS or to {file}"
            );
        }
    }
    toolchain::check_project_flags(&policy.flags).context("flags")
}

/// A path of the policy, or of a file that is found without being named: relative to the policy, and below its folder whatever
/// links there are. `what` it is and what to do instead are for the error.
fn inside(path: &Path, folder: &Path, what: &str, instead: &str) -> Result<PathBuf> {
    let full = normal(&folder.join(path));
    let shown = folder.display();
    if path.is_absolute() || !full.starts_with(folder) {
        bail!("{what} is not below the policy's folder {shown}: expected a path inside it; {instead}");
    }
    let real_folder = folder.canonicalize().with_context(|| format!("cannot find {shown}"))?;
    // Links are followed as far as there is something: a file that is yet to be written has a folder at least.
    let there = full.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(folder);
    let Ok(real) = there.canonicalize() else {
        bail!("{what}: {} is a link to nothing: expected a file inside {shown}; {instead}", there.display());
    };
    if !real.starts_with(&real_folder) {
        let (link, real) = (there.display(), real.display());
        bail!("{what}: {link} leads to {real}, outside the policy's folder {shown}; {instead}");
    }
    // git runs hooks and reads settings there; a checkout holds none of it, and a policy puts nothing into it.
    let gits = |path: &Path| path.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"));
    if gits(path) || real.strip_prefix(&real_folder).is_ok_and(gits) {
        bail!("{what} is one of git's own files: expected one of the checkout's; {instead}");
    }
    Ok(full)
}

/// The files that the policy's patterns name, with the architectures that are theirs alone. One that matches nothing is an
/// error where they are what is measured: a moved folder must not pass.
fn matching(policy: &Policy, base: &Path, here: &Path, strict: bool) -> Result<BTreeMap<PathBuf, Vec<String>>> {
    let mut files: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for InputPattern { path: pattern, arch } in &policy.inputs {
        let below = |path: &Path| {
            inside(path, base, &format!("'{pattern}' in inputs"), "files elsewhere are named on the command line")
        };
        below(Path::new(pattern))?;
        let mut any = false;
        for path in inputs::matching(pattern, base)? {
            let path = below(path.strip_prefix(base).unwrap_or(&path))?;
            let own = files.entry(relative(&path, here)).or_default();
            own.extend(arch.iter().filter(|arch| !own.contains(arch)).cloned().collect::<Vec<_>>());
            any = true;
        }
        if strict && !any {
            bail!("'{pattern}' in inputs matches no file in {}", base.display());
        }
    }
    Ok(files)
}

/// A path without `.` and `..`, as far as its text tells.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if out.file_name().is_some() => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

fn relative(path: &Path, folder: &Path) -> PathBuf {
    let path = normal(path);
    path.strip_prefix(folder).map(Path::to_path_buf).unwrap_or(path)
}

/// What the baseline calls the inputs: paths from its folder. What lies elsewhere, such as a compiler's temporary folder, is
/// called by its path from the folder that all of those share, so that another temporary folder changes no name.
fn names(paths: &[PathBuf], here: &Path, root: &Path) -> Vec<String> {
    let full: Vec<PathBuf> = paths
        .iter()
        .map(|path| if path.as_os_str() == "-" { path.clone() } else { normal(&here.join(path)) })
        .collect();
    let outside: Vec<&PathBuf> =
        full.iter().filter(|path| path.is_absolute() && path.strip_prefix(root).is_err()).collect();
    let mut shared: Option<PathBuf> = None;
    for path in outside {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let common = |known: PathBuf| {
            let both = known.components().zip(folder.components()).take_while(|(a, b)| a == b);
            both.map(|(part, _)| part).collect::<PathBuf>()
        };
        shared = Some(shared.map_or_else(|| folder.to_path_buf(), common));
    }
    let name = |path: &PathBuf| {
        let short = path.strip_prefix(root).ok().or(shared.as_ref().and_then(|shared| path.strip_prefix(shared).ok()));
        short.unwrap_or(path).display().to_string().replace('\\', "/")
    };
    full.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_depend_on_where_things_lie() {
        let names = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            names(&paths, Path::new("/repo/sub"), Path::new("/repo"))
        };
        assert_eq!(names(&["a.ptx", "../k/b.ptx", "/repo/c.ptx"]), ["sub/a.ptx", "k/b.ptx", "c.ptx"]);
        assert_eq!(names(&["/tmp/x1/p/a.ptx", "/tmp/x1/q/a.ptx", "a.ptx"]), ["p/a.ptx", "q/a.ptx", "sub/a.ptx"]);
        assert_eq!(names(&["/tmp/x2/only.ptx"]), ["only.ptx"]);
        assert_eq!(names(&["-"]), ["-"]);
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted("kernels/a.ptx"), "kernels/a.ptx");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted("gemm_*"), "'gemm_*'");
    }
}
