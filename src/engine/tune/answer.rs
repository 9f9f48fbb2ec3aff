//! From what was tried to what is told: the table, its commands and patches, the best for each aim, and why.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::{Trials, missing};
use crate::compare::unified;
use crate::cost::{L1_LATENCY, Machine};
use crate::report::LaunchHints;
use crate::tune::{
    Aim, AimAnswer, Axis, Change, Frees, Holder, Outcome, Refusals, Row, Search, Tried, Tuned, Why, best, closest,
    front, is_faster,
};

/// Values at the peak that are named.
const HOLDERS: usize = 5;

impl Trials<'_, '_> {
    /// What is told of a search.
    pub(super) fn answer(&self, search: &Search, out_of_time: bool) -> Result<Tuned> {
        let tried = search.tried();
        let mut chosen: Vec<&Tried> = tried.iter().take(1).collect();
        let now = tried.first().and_then(Tried::figures).cloned().unwrap_or_default();
        let bests: Vec<(Aim, Option<&Tried>)> =
            Aim::ALL.into_iter().map(|aim| (aim, best(aim, tried, &now).filter(|found| found.number > 0))).collect();
        let near: Vec<Option<&Tried>> = bests
            .iter()
            .map(|(aim, found)| {
                closest(*aim, tried, &now).filter(|_| found.is_none() && aim.is_met(&now) != Some(true))
            })
            .collect();
        let reached = bests.iter().filter(|(aim, _)| aim.is_met(&now) != Some(true)).filter_map(|(_, found)| *found);
        for found in reached.chain(near.iter().flatten().copied()) {
            if !chosen.iter().any(|other| other.number == found.number) {
                chosen.push(found);
            }
        }
        let all: Vec<&Tried> = front(tried).into_iter().filter(|one| one.number > 0).collect();
        for one in &all {
            if chosen.len() <= self.bench.request.rows && !chosen.iter().any(|other| same(other, one)) {
                chosen.push(one);
            }
        }
        let left_out = all.iter().filter(|one| !chosen.iter().any(|other| same(other, one))).count();
        chosen.sort_by_key(|one| (one.number > 0, one.figures().map(|figures| figures.costs()), one.number));
        let row_of = |one: &Tried| chosen.iter().position(|other| other.number == one.number);
        let best = bests.iter().zip(&near).map(|((aim, found), near)| {
            let is_met = aim.is_met(&now);
            let row = found.filter(|_| is_met != Some(true)).and_then(row_of);
            let equal = equal_rows(*aim, &chosen, row);
            AimAnswer { aim: *aim, is_met, row, closest: near.and_then(row_of), equal }
        });
        let rows = chosen.iter().enumerate().filter_map(|(at, one)| self.row(at, one));
        Ok(Tuned {
            input: self.bench.input.name.clone(),
            kernel: self.baseline.kernel.name.clone(),
            arch: self.bench.arch.to_string(),
            is_alone: self.bench.alone(self.function).is_some(),
            runs: tried.len(),
            different: tried.iter().filter_map(Tried::code).collect::<BTreeSet<_>>().len(),
            is_cut: out_of_time || search.is_cut(),
            tried: kinds(tried),
            refused: refusals(tried),
            best: best.collect(),
            rows: rows.collect(),
            rows_left_out: left_out,
            why: self.why(tried),
            suggestions: search.space().suggestions.clone(),
            no_cycles: if now.cycles_per_block.is_none() { Some(self.no_cycles()) } else { None },
            missing: missing(&self.baseline.kernel),
        })
    }

    fn row(&self, at: usize, one: &Tried) -> Option<Row> {
        let Outcome::Built { figures, code } = &one.outcome else { return None };
        let edited = self.text(&one.trial).ok().flatten();
        let name = file_name(&self.bench.input.name);
        let edits = one.trial.edits();
        let session = self.baseline.sessions.get(one.trial.ptxas)?;
        let alone = self.bench.alone(self.function);
        let flags = self.flags(&one.trial);
        let ptxas = self.baseline.versions.get(one.trial.ptxas).cloned().unwrap_or_default();
        let mut commands = Vec::new();
        let source = if edits.is_empty() {
            self.bench.input.name.clone()
        } else {
            let tuned = tuned_name(&name, at);
            let apply: String = edits.iter().map(|edit| format!(" --apply {edit}")).collect();
            let kernel = alone.as_ref().map(|_| format!(" --kernel {}", quoted(self.function.name())));
            let kernel = kernel.unwrap_or_default();
            commands.push(format!(
                "ptxinspect tune {}{kernel}{apply} -o {}",
                quoted(&self.bench.input.name),
                quoted(&tuned)
            ));
            tuned
        };
        let launch = self.launch();
        let all: Vec<String> = session.flags.iter().chain(&flags).map(|flag| quoted(flag)).collect();
        let flags_text = if all.is_empty() { String::new() } else { format!(" -- {}", all.join(" ")) };
        commands.push(format!(
            "ptxinspect {} --arch {} --ptxas {ptxas}{launch}{flags_text}",
            quoted(&source),
            self.bench.arch
        ));
        if let Some(file) = one.trial.controls() {
            let own = if session.flags.is_empty() { "" } else { " -- " };
            let own_flags: Vec<String> = session.flags.iter().map(|flag| quoted(flag)).collect();
            commands.push(format!(
                "ptxinspect diff {} --arch {} --ptxas {ptxas}{launch} --after-flags={}{own}{}",
                quoted(&source),
                self.bench.arch,
                quoted(&format!("--apply-controls={file}")),
                own_flags.join(" ")
            ));
        }
        Some(Row {
            row: at,
            changes: one.trial.changes.iter().map(Change::to_string).collect(),
            ptxas,
            flags: alone.into_iter().chain(flags).collect(),
            edits: edits.iter().map(ToString::to_string).collect(),
            edits_in_words: edits.iter().map(|edit| edit.words()).collect(),
            figures: (**figures).clone(),
            code: code.clone(),
            commands,
            patch: edited.map(|edited| unified(&name, self.bench.module.text(), &edited)),
        })
    }

    /// What the user said of the launch, as flags: without them a row's figures are others.
    fn launch(&self) -> String {
        let LaunchHints { threads, smem_dynamic_bytes, .. } = self.bench.request.launch;
        let threads = threads.map(|threads| format!(" --threads {threads}"));
        let smem = smem_dynamic_bytes.map(|bytes| format!(" --smem-dynamic {bytes}"));
        threads.into_iter().chain(smem).collect()
    }

    /// Why cycles are not estimated.
    fn no_cycles(&self) -> String {
        let missing = missing(&self.baseline.kernel);
        if Machine::of(self.bench.arch, L1_LATENCY).is_none() {
            format!("nobody measured {}; sm_90 was", self.bench.arch)
        } else if missing.is_empty() {
            "the code is too long, has no lines, or calls functions".to_owned()
        } else {
            format!("give {}", missing.join(" and "))
        }
    }

    fn why(&self, tried: &[Tried]) -> Why {
        let kernel = &self.baseline.kernel;
        let peak = kernel.pressure.as_ref().map(|pressure| &pressure.gpr);
        let mut holders: Vec<Holder> = kernel
            .live_at_peak
            .iter()
            .flatten()
            .map(|value| Holder {
                registers: value.registers.len(),
                // What the line makes is not what holds these registers.
                virtual_registers: if value.is_operand { Vec::new() } else { value.virtual_registers.clone() },
                ptx_line: value.ptx_line,
                next_use_ptx_line: value.next_use_ptx_line,
                could: value.could.clone(),
            })
            .collect();
        holders.sort_by_key(|holder| (std::cmp::Reverse(holder.registers), holder.ptx_line));
        holders.truncate(HOLDERS);
        let now = tried.first().and_then(Tried::figures).and_then(|figures| figures.peak_live);
        let single = |one: &&Tried| one.trial.changes.len() == 1 && one.trial.ptxas == 0;
        let edits = tried.iter().filter(single).filter_map(|one| {
            let edit = one.trial.changes.first()?.edit()?;
            let peak = one.figures()?.peak_live?;
            // A cap frees nothing, and neither does another place for what is spilt.
            let frees = !matches!(edit.axis(), Axis::Registers | Axis::Threads | Axis::SpillMemory);
            (frees && peak < now?).then(|| Frees { change: edit.to_string(), words: edit.words(), peak_live: peak })
        });
        Why {
            peak_live: peak.map(|peak| peak.peak),
            peak_ptx_line: peak.and_then(|peak| peak.ptx_line),
            cap: kernel.register_cap.as_ref().map(|cap| cap.explanation.clone()),
            gap: kernel.pressure.iter().flat_map(|pressure| pressure.gap.clone()).collect(),
            holders,
            frees_most: edits.min_by_key(|frees| frees.peak_live),
        }
    }
}

/// The rows that an estimate of cycles cannot tell from the one that has least.
fn equal_rows(aim: Aim, rows: &[&Tried], named: Option<usize>) -> Vec<usize> {
    if aim != Aim::LeastCycles {
        return Vec::new();
    }
    let cycles = |row: usize| rows.get(row)?.figures()?.cycles_per_block;
    let least = (0..rows.len()).filter_map(cycles).min();
    let is_equal = |row: &usize| cycles(*row).zip(least).is_some_and(|(own, least)| !is_faster(least, own));
    (0..rows.len()).filter(is_equal).filter(|row| Some(*row) != named).collect()
}

/// Whether two builds are one to a reader.
fn same(one: &Tried, other: &Tried) -> bool {
    one.number == other.number
        || one.figures().zip(other.figures()).is_some_and(|(one, other)| one.costs() == other.costs())
}

/// What was tried, by kind.
fn kinds(tried: &[Tried]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for change in tried.iter().flat_map(|one| &one.trial.changes) {
        let text = change.to_string();
        let kind = text.split(['=', '@']).next().unwrap_or(&text);
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    let releases = tried.iter().filter(|one| one.trial.ptxas > 0).count();
    if releases > 0 {
        kinds.insert("--ptxas".to_owned(), releases);
    }
    kinds
}

fn refusals(tried: &[Tried]) -> Refusals {
    let mut refusals = Refusals::default();
    for one in tried {
        if let Outcome::Refused { reason, message } = &one.outcome {
            *refusals.count.entry(*reason).or_default() += 1;
            refusals.first.entry(*reason).or_insert_with(|| format!("{}: {message}", one.trial));
        }
    }
    refusals
}

/// The last part of a path.
fn file_name(name: &str) -> String {
    name.rsplit(['/', '\\']).next().unwrap_or(name).to_owned()
}

/// `kernel.ptx` becomes `kernel.row3.ptx`.
fn tuned_name(name: &str, row: usize) -> String {
    let stem = name.strip_suffix(".ptx").unwrap_or(name);
    format!("{stem}.row{row}.ptx")
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
