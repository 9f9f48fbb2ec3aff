//! Sums that grow with the entries, and what they come to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use rayon::prelude::*;
use serde::Serialize;

use super::copies::{Copies, Finder, Stored};
use super::cubin::{CubinSize, Part};
use super::names::{namespace, template};
use crate::base::{Arch, Variant};
use crate::report::demangle;
use crate::report::library::Failure;

/// What bytes are put together by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Function templates, and functions that are none.
    Template,
    /// Namespaces, and classes in them.
    Namespace,
    /// Names of kernels and device functions.
    Kernel,
    /// Architectures.
    Arch,
    /// Files that hold GPU code.
    File,
    /// What the bytes are for: code, debug information, symbols, …
    Section,
}

/// What the bytes of a row are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// Code of functions; by architecture or file all of their cubins.
    Code,
    /// What cubins hold beside code.
    Section,
    /// PTX.
    Ptx,
    /// LTO-IR and what else cannot be looked into.
    Opaque,
    /// What is no GPU code: the host's, headers and padding of fatbins.
    Host,
}

/// Bytes that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeRow {
    /// Of what.
    pub name: String,
    /// What they are.
    pub kind: RowKind,
    /// Kernels and device functions.
    pub functions: u64,
    /// Bytes of SASS.
    pub code_bytes: u64,
    /// Bytes when decompressed.
    pub loaded_bytes: u64,
    /// Bytes in the file: of a compressed entry each part has its share by size.
    pub file_bytes: u64,
}

/// An architecture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ArchSize {
    /// `sm_90a`.
    pub arch: String,
    /// Cubins.
    pub cubins: u64,
    /// PTX texts.
    pub ptx_texts: u64,
    /// Kernels and device functions of the cubins.
    pub functions: u64,
    /// Bytes of SASS.
    pub code_bytes: u64,
    /// Bytes of cubins and PTX when decompressed.
    pub loaded_bytes: u64,
    /// Bytes of cubins and PTX in the file.
    pub file_bytes: u64,
    /// How many of those are PTX.
    pub ptx_file_bytes: u64,
}

/// A file that holds GPU code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileSize {
    /// Where it is.
    pub path: String,
    /// Its bytes.
    pub bytes: u64,
    /// How many it takes in what holds it: fewer in a zip that deflates it.
    pub packed_bytes: u64,
    /// Bytes of GPU code in it, as stored.
    pub gpu_bytes: u64,
    /// The rest: code of the host, headers and padding of fatbins.
    pub other_bytes: u64,
}

/// Cubins that PTX of the same fatbin could stand in for: it has every kernel of theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PtxInstead {
    /// The cubins' architecture.
    pub arch: String,
    /// The PTX's.
    pub ptx_arch: String,
    /// Whether the PTX was made for just that architecture: then it is the same source under the same `__CUDA_ARCH__`.
    pub same_arch: bool,
    /// How many cubins.
    pub cubins: u64,
    /// Their bytes when decompressed.
    pub loaded_bytes: u64,
    /// Their bytes in the file.
    pub file_bytes: u64,
}

/// Where the bytes are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// What the rows are put together by.
    pub by: By,
    /// Whether everything was counted: no entry and no function was left out.
    pub complete: bool,
    /// All rows together.
    pub sum: SizeRow,
    /// The rows, the largest in the file first.
    pub rows: Vec<SizeRow>,
    /// By architecture, the oldest first.
    pub arches: Vec<ArchSize>,
    /// Files, in order.
    pub files: Vec<FileSize>,
    /// What is there more than once.
    pub same_code: Copies,
    /// Cubins that PTX could stand in for.
    pub ptx_instead: Vec<PtxInstead>,
    /// What could not be read: its bytes count as opaque.
    pub errors: Vec<Failure>,
    /// Functions' templates by architecture, the largest first: for pictures.
    #[serde(skip)]
    pub by_arch_and_template: Vec<(String, Vec<SizeRow>)>,
}

/// What an entry holds, as far as sizes go.
#[derive(Clone, Debug)]
pub enum Content {
    /// A cubin.
    Cubin(CubinSize),
    /// PTX, and the kernels in it.
    Ptx(Vec<String>),
    /// Something that cannot be looked into, or could not be read.
    Opaque,
}

/// An entry, looked at.
#[derive(Clone, Debug)]
pub struct EntrySize {
    /// The file that holds it: its path, its bytes, and how many those are in what holds it.
    pub file: (String, u64, u64),
    /// The fatbin that it is in, by any name that no other has.
    pub fatbin: Option<String>,
    /// Its architecture.
    pub arch: Option<Arch>,
    /// Bytes when decompressed.
    pub loaded_bytes: u64,
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Whether those are fewer because they are compressed.
    pub is_compressed: bool,
    /// Whether it is only for the device linker.
    pub is_for_linking: bool,
    /// What it holds.
    pub content: Content,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    functions: u64,
    code: u64,
    loaded: u64,
    file: u64,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.functions += other.functions;
        self.code += other.code;
        self.loaded += other.loaded;
        self.file += other.file;
    }

    fn row(self, name: String, kind: RowKind) -> SizeRow {
        let Sum { functions, code, loaded, file } = self;
        SizeRow { name, kind, functions, code_bytes: code, loaded_bytes: loaded, file_bytes: file }
    }
}

/// Sums of everything so far.
#[derive(Default)]
pub struct Sizes {
    names: HashMap<String, usize>,
    arches: BTreeMap<Option<Arch>, OfArch>,
    parts: BTreeMap<(RowKind, &'static str), Sum>,
    files: Vec<(FileSize, Sum)>,
    file_numbers: HashMap<String, usize>,
    copies: Finder,
    fatbin: Fatbin,
    instead: BTreeMap<(Arch, Arch), (u64, Sum)>,
    errors: Vec<Failure>,
}

#[derive(Default)]
struct OfArch {
    cubins: u64,
    ptx: u64,
    sum: Sum,
    ptx_sum: Sum,
    /// By the number of the function's name.
    functions: HashMap<usize, Sum>,
}

/// The fatbin that is being counted.
#[derive(Default)]
struct Fatbin {
    name: Option<String>,
    ptx: Vec<(Arch, HashSet<String>)>,
    cubins: Vec<(Arch, Vec<String>, Sum)>,
}

impl Sizes {
    /// Counts something that could not be read; its bytes come as an opaque entry, where they are known.
    pub fn fail(&mut self, path: String, message: String) {
        self.errors.push(Failure { path, message });
    }

    /// Counts one more entry; entries of a fatbin come one after the other.
    pub fn add(&mut self, entry: EntrySize) {
        if self.fatbin.name != entry.fatbin || entry.fatbin.is_none() {
            self.end_fatbin();
            self.fatbin.name.clone_from(&entry.fatbin);
        }
        let whole = Sum { loaded: entry.loaded_bytes, file: entry.file_bytes, ..Sum::default() };
        let mut sum = whole;
        match entry.content {
            Content::Opaque => self.parts.entry((RowKind::Opaque, "lto-ir and others")).or_default().add(whole),
            Content::Ptx(kernels) => {
                let of_arch = self.arches.entry(entry.arch).or_default();
                of_arch.ptx += 1;
                of_arch.ptx_sum.add(whole);
                self.parts.entry((RowKind::Ptx, "ptx")).or_default().add(whole);
                if let Some(arch) = entry.arch {
                    self.fatbin.ptx.push((arch, kernels.into_iter().collect()));
                }
            }
            Content::Cubin(cubin) => {
                let arch = entry.arch.map(|arch| arch.to_string()).unwrap_or_default();
                let stored = Stored {
                    file: &entry.file.0,
                    arch: &arch,
                    loaded_bytes: entry.loaded_bytes,
                    file_bytes: entry.file_bytes,
                    is_compressed: entry.is_compressed,
                };
                self.copies.add(stored, &cubin);
                let of_arch = self.arches.entry(entry.arch).or_default();
                let mut share = Share::new(entry.file_bytes, entry.loaded_bytes);
                for function in &cubin.functions {
                    let next = self.names.len();
                    let name = match self.names.get(&function.name) {
                        Some(name) => *name,
                        None => *self.names.entry(function.name.clone()).or_insert(next),
                    };
                    let bytes = function.code_bytes;
                    let one = Sum { functions: 1, code: bytes, loaded: bytes, file: share.next(bytes) };
                    of_arch.functions.entry(name).or_default().add(one);
                    self.parts.entry((RowKind::Code, Part::Code.name())).or_default().add(one);
                    (sum.functions, sum.code) = (sum.functions + 1, sum.code + bytes);
                }
                for (part, bytes) in &cubin.parts {
                    let one = Sum { loaded: *bytes, file: share.next(*bytes), ..Sum::default() };
                    self.parts.entry((RowKind::Section, part.name())).or_default().add(one);
                }
                // A size that the container declares may be more than the file that is there.
                let rest = Sum { loaded: share.left_of_whole(), file: share.rest(), ..Sum::default() };
                if rest.loaded > 0 || rest.file > 0 {
                    self.parts.entry((RowKind::Section, Part::Headers.name())).or_default().add(rest);
                }
                of_arch.cubins += 1;
                of_arch.sum.add(sum);
                if let Some(arch) = entry.arch.filter(|_| !entry.is_for_linking) {
                    let kernels = cubin.functions.into_iter().filter(|function| function.is_kernel);
                    self.fatbin.cubins.push((arch, kernels.map(|function| function.name).collect(), whole));
                }
            }
        }
        let (path, bytes, packed_bytes) = entry.file;
        let next = self.files.len();
        let number = *self.file_numbers.entry(path.clone()).or_insert(next);
        if number == next {
            self.files.push((FileSize { path, bytes, packed_bytes, gpu_bytes: 0, other_bytes: 0 }, Sum::default()));
        }
        if let Some((file, of_file)) = self.files.get_mut(number) {
            file.gpu_bytes += entry.file_bytes;
            of_file.add(sum);
        }
    }

    /// Which of its cubins the PTX of a fatbin could stand in for.
    fn end_fatbin(&mut self) {
        let fatbin = std::mem::take(&mut self.fatbin);
        for (arch, kernels, sum) in fatbin.cubins {
            let has_all = |names: &HashSet<String>| kernels.iter().all(|name| names.contains(name));
            let able = fatbin.ptx.iter().filter(|(ptx, names)| serves(*ptx, arch) && has_all(names));
            if let (Some((ptx, _)), false) = (able.max_by_key(|(ptx, _)| (*ptx == arch, *ptx)), kernels.is_empty()) {
                let (count, total) = self.instead.entry((arch, *ptx)).or_default();
                *count += 1;
                total.add(sum);
            }
        }
    }

    /// Puts everything together. `is_complete`: nothing was left out, so that what is left of a file is no GPU code.
    pub fn finish(mut self, by: By, is_complete: bool) -> Size {
        self.end_fatbin();
        let mut host = Sum::default();
        let mut files = Vec::new();
        for (mut file, sum) in std::mem::take(&mut self.files) {
            file.other_bytes = if is_complete { file.bytes.saturating_sub(file.gpu_bytes) } else { 0 };
            host.file += file.other_bytes;
            files.push((file, sum));
        }
        let mut total = host;
        self.arches.values().for_each(|arch| total.add(arch.all()));
        self.parts.iter().filter(|((kind, _), _)| *kind == RowKind::Opaque).for_each(|(_, sum)| total.add(*sum));
        let mut names: Vec<(&String, usize)> = self.names.iter().map(|(name, number)| (name, *number)).collect();
        names.sort_unstable_by_key(|(_, number)| *number);
        let templates: Vec<String> = names.par_iter().map(|(name, _)| of_template(name)).collect();
        let by_arch_and_template = self.by_arch_and_template(&templates);
        let mut rows = match by {
            By::Arch => self.by_arch(),
            By::File => files.iter().map(|(file, sum)| sum.row(file.path.clone(), RowKind::Code)).collect(),
            By::Section => self.by_section(|_| true),
            By::Template | By::Namespace | By::Kernel => {
                let key = |number: usize| match by {
                    By::Kernel => names.get(number).map_or("", |(name, _)| name),
                    By::Namespace => templates.get(number).and_then(|name| namespace(name)).unwrap_or(NO_NAMESPACE),
                    _ => templates.get(number).map_or("", String::as_str),
                };
                let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
                for (number, sum) in self.arches.values().flat_map(|arch| &arch.functions) {
                    sums.entry(key(*number)).or_default().add(*sum);
                }
                let rows = sums.into_iter().map(|(name, sum)| sum.row(name.to_owned(), RowKind::Code));
                rows.chain(self.by_section(|kind| kind != RowKind::Code)).collect()
            }
        };
        if host.file > 0 {
            rows.push(host.row("not GPU code".to_owned(), RowKind::Host));
        }
        rows.sort_by(|a, b| {
            let size = |row: &SizeRow| Reverse((row.file_bytes, row.loaded_bytes));
            size(a).cmp(&size(b)).then_with(|| (a.kind, &a.name).cmp(&(b.kind, &b.name)))
        });
        let arches = self.arches.iter().filter_map(|(arch, of)| Some(of.size((*arch)?))).collect();
        let instead = self.instead.into_iter().map(|((arch, ptx), (cubins, sum))| PtxInstead {
            arch: arch.to_string(),
            ptx_arch: ptx.to_string(),
            same_arch: arch == ptx,
            cubins,
            loaded_bytes: sum.loaded,
            file_bytes: sum.file,
        });
        Size {
            by,
            complete: is_complete,
            sum: total.row("total".to_owned(), RowKind::Code),
            rows,
            arches,
            files: files.into_iter().map(|(file, _)| file).collect(),
            same_code: self.copies.finish(),
            ptx_instead: instead.collect(),
            errors: self.errors,
            by_arch_and_template,
        }
    }

    fn by_arch(&self) -> Vec<SizeRow> {
        let mut rows = Vec::new();
        for (arch, of) in &self.arches {
            let name = arch.map_or_else(|| "unknown architecture".to_owned(), |arch| arch.to_string());
            if of.cubins > 0 {
                rows.push(of.sum.row(name.clone(), RowKind::Code));
            }
            if of.ptx > 0 {
                rows.push(of.ptx_sum.row(format!("ptx {name}"), RowKind::Ptx));
            }
        }
        rows.extend(self.by_section(|kind| kind == RowKind::Opaque));
        rows
    }

    fn by_section(&self, wanted: impl Fn(RowKind) -> bool) -> Vec<SizeRow> {
        let parts = self.parts.iter().filter(|((kind, _), _)| wanted(*kind));
        parts.map(|((kind, name), sum)| sum.row((*name).to_owned(), *kind)).collect()
    }

    fn by_arch_and_template(&self, templates: &[String]) -> Vec<(String, Vec<SizeRow>)> {
        let mut found = Vec::new();
        for (arch, of) in self.arches.iter().filter(|(_, of)| of.cubins > 0) {
            let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
            let mut rest = of.sum;
            for (number, sum) in &of.functions {
                sums.entry(templates.get(*number).map_or("", String::as_str)).or_default().add(*sum);
                rest.loaded = rest.loaded.saturating_sub(sum.loaded);
                rest.file = rest.file.saturating_sub(sum.file);
            }
            (rest.functions, rest.code) = (0, 0);
            let rows = sums.into_iter().map(|(name, sum)| sum.row(name.to_owned(), RowKind::Code));
            let beside = rest.row("beside code".to_owned(), RowKind::Section);
            let mut rows: Vec<SizeRow> = rows.chain([beside]).filter(|row| row.file_bytes > 0).collect();
            rows.sort_by(|a, b| b.file_bytes.cmp(&a.file_bytes).then_with(|| a.name.cmp(&b.name)));
            found.push((arch.map(|arch| arch.to_string()).unwrap_or_default(), rows));
        }
        found
    }
}

/// What stands for the namespace of names that have none.
const NO_NAMESPACE: &str = "(no namespace)";

/// A name's template; a name that is not mangled is its own.
fn of_template(name: &str) -> String {
    demangle(name).map_or_else(|| name.to_owned(), |name| template(&name))
}

/// Whether the driver compiles this PTX for a GPU that this cubin is for.
fn serves(ptx: Arch, cubin: Arch) -> bool {
    match ptx.variant {
        Variant::Base => cubin.sm >= ptx.sm,
        Variant::Family | Variant::Accelerated => cubin == ptx,
    }
}

impl OfArch {
    fn all(&self) -> Sum {
        let mut sum = self.sum;
        sum.add(self.ptx_sum);
        sum
    }

    fn size(&self, arch: Arch) -> ArchSize {
        let sum = self.all();
        ArchSize {
            arch: arch.to_string(),
            cubins: self.cubins,
            ptx_texts: self.ptx,
            functions: sum.functions,
            code_bytes: sum.code,
            loaded_bytes: sum.loaded,
            file_bytes: sum.file,
            ptx_file_bytes: self.ptx_sum.file,
        }
    }
}

/// The stored bytes of an entry dealt out to its parts by their size, so that they add up.
struct Share {
    file: u64,
    loaded: u64,
    passed: u64,
    given: u64,
}

impl Share {
    fn new(file: u64, loaded: u64) -> Share {
        Share { file, loaded, passed: 0, given: 0 }
    }

    fn next(&mut self, bytes: u64) -> u64 {
        self.passed = self.passed.saturating_add(bytes).min(self.loaded.max(1));
        let upto = u128::from(self.file) * u128::from(self.passed) / u128::from(self.loaded.max(1));
        let upto = u64::try_from(upto).unwrap_or(self.file).max(self.given);
        std::mem::replace(&mut self.given, upto).abs_diff(upto)
    }

    fn left_of_whole(&self) -> u64 {
        self.loaded.saturating_sub(self.passed)
    }

    fn rest(&self) -> u64 {
        self.file.saturating_sub(self.given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (file, parts) in [(10, vec![3, 3, 3]), (7, vec![1, 1, 1, 1000]), (0, vec![5]), (1000, vec![1; 7])] {
            let mut share = Share::new(file, parts.iter().sum());
            assert_eq!(parts.iter().map(|part| share.next(*part)).sum::<u64>(), file);
            assert_eq!((share.rest(), share.left_of_whole()), (0, 0));
        }
    }

    #[test]
    fn who_serves_whom() {
        let arch = |text: &str| text.parse::<Arch>().unwrap();
        for (ptx, cubin, does) in [
            ("sm_80", "sm_80", true),
            ("sm_80", "sm_90a", true),
            ("sm_90", "sm_80", false),
            ("sm_90a", "sm_90a", true),
            ("sm_90a", "sm_100", false),
            ("sm_100f", "sm_103", false),
        ] {
            assert_eq!(serves(arch(ptx), arch(cubin)), does, "{ptx} {cubin}");
        }
    }
}
