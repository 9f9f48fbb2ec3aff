//! Functions that are there more than once: proven by a digest of everything that makes a function what it is, under any name.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::cubin::{CubinSize, Digest};

/// How far apart a function and the first of its kind are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// In one cubin, under different names.
    Cubin,
    /// In several cubins of one file.
    File,
    /// In several files.
    Files,
}

/// Functions that are the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CopyGroup {
    /// `sm_90a`.
    pub arch: String,
    /// The names, each once, in order; some of them where there are many.
    pub names: Vec<String>,
    /// How many names there are.
    pub name_count: u64,
    /// How many times it is there, the first counted.
    pub count: u64,
    /// In how many cubins.
    pub cubins: u64,
    /// Bytes of code of one.
    pub code_bytes: u64,
    /// Bytes of code of all but the first.
    pub extra_code_bytes: u64,
}

/// What is there once more than it needs to be, by how far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ScopeSum {
    /// How far from the first of its kind.
    pub scope: Scope,
    /// Functions that came before in the same form.
    pub count: u64,
    /// Bytes of their code.
    pub code_bytes: u64,
}

/// Everything that is there more than once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Copies {
    /// The groups, those with the most to save first.
    pub groups: Vec<CopyGroup>,
    /// How many groups there are.
    pub group_count: u64,
    /// Sums by how far apart.
    pub scopes: Vec<ScopeSum>,
    /// Cubins without variables all of whose functions are in other cubins as well: whole entries that could go.
    pub whole_cubins: u64,
    /// Bytes that one of each would save when everything is loaded: whole cubins, and of the others the code.
    pub saves_loaded_bytes: u64,
    /// The same in the file, as far as it is certain: whole cubins as they are stored, and code that is not compressed.
    pub saves_file_bytes: u64,
    /// Bytes of code whose part of a compressed cubin nobody can tell: not in `saves_file_bytes`.
    pub uncertain_code_bytes: u64,
}

/// Names of a group that are kept.
const NAMES: usize = 4;
/// Groups that are kept.
const GROUPS: usize = 1_000;

/// A cubin as it lies in its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    pub file: &'a str,
    pub arch: &'a str,
    pub loaded_bytes: u64,
    pub file_bytes: u64,
    pub is_compressed: bool,
}

/// Grows with the cubins.
#[derive(Default)]
pub(super) struct Finder {
    groups: HashMap<Digest, Group>,
    found: Copies,
    scopes: [(u64, u64); 3],
    files: HashMap<String, u32>,
    names: HashMap<String, u32>,
    cubins: u32,
}

struct Group {
    order: usize,
    arch: String,
    /// Numbers of names, ascending; those that came first.
    names: BTreeSet<u32>,
    first: Vec<String>,
    count: u64,
    cubins: u64,
    code_bytes: u64,
    /// The file and the cubin of the last.
    last: (u32, u32),
    /// Numbers of the files it is in.
    files: BTreeSet<u32>,
}

impl Finder {
    /// Adds the functions of one more cubin.
    pub fn add(&mut self, stored: Stored<'_>, cubin: &CubinSize) {
        let number = self.cubins;
        self.cubins += 1;
        let next = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        let file = *self.files.entry(stored.file.to_owned()).or_insert(next);
        let (mut elsewhere, mut code) = (0, 0);
        for function in cubin.functions.iter().filter(|function| function.code_bytes > 0) {
            let order = self.groups.len();
            let group = self.groups.entry(function.digest).or_insert_with(|| Group {
                order,
                arch: stored.arch.to_owned(),
                names: BTreeSet::new(),
                first: Vec::new(),
                count: 0,
                cubins: 0,
                code_bytes: function.code_bytes,
                last: (u32::MAX, u32::MAX),
                files: BTreeSet::new(),
            });
            if group.count > 0 {
                let scope = match group.last {
                    last if last == (file, number) => Scope::Cubin,
                    _ if group.files.contains(&file) => Scope::File,
                    _ => Scope::Files,
                };
                let (count, bytes) = &mut self.scopes[scope as usize];
                (*count, *bytes) = (*count + 1, *bytes + function.code_bytes);
                code += function.code_bytes;
                // The first of them is in another cubin, or this one has it twice.
                elsewhere += u64::from(group.last != (file, number) || group.cubins > 1);
            }
            group.count += 1;
            group.cubins += u64::from(group.last != (file, number));
            group.last = (file, number);
            group.files.insert(file);
            let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
            let name = match self.names.get(&function.name) {
                Some(name) => *name,
                None => *self.names.entry(function.name.clone()).or_insert(next),
            };
            if group.names.insert(name) && group.first.len() < NAMES {
                group.first.push(function.name.clone());
            }
        }
        let is_whole = elsewhere > 0 && elsewhere == cubin.functions.len() as u64 && !cubin.has_data;
        let found = &mut self.found;
        if is_whole {
            found.whole_cubins += 1;
            found.saves_loaded_bytes += stored.loaded_bytes;
            found.saves_file_bytes += stored.file_bytes;
        } else {
            found.saves_loaded_bytes += code;
            let known =
                if stored.is_compressed { &mut found.uncertain_code_bytes } else { &mut found.saves_file_bytes };
            *known += code;
        }
    }

    /// The groups with more than one function.
    pub fn finish(self) -> Copies {
        let mut found = self.found;
        let mut groups: Vec<Group> = self.groups.into_values().filter(|group| group.count > 1).collect();
        let extra = |group: &Group| (group.count - 1).saturating_mul(group.code_bytes);
        groups.sort_by_key(|group| (std::cmp::Reverse(extra(group)), group.order));
        found.group_count = groups.len() as u64;
        groups.truncate(GROUPS);
        found.groups = groups
            .into_iter()
            .map(|group| CopyGroup {
                extra_code_bytes: extra(&group),
                arch: group.arch,
                names: group.first,
                name_count: group.names.len() as u64,
                count: group.count,
                cubins: group.cubins,
                code_bytes: group.code_bytes,
            })
            .collect();
        let all = [Scope::Cubin, Scope::File, Scope::Files].into_iter().zip(self.scopes);
        found.scopes = all.map(|(scope, (count, code_bytes))| ScopeSum { scope, count, code_bytes }).collect();
        found
    }
}
