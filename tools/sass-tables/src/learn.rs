//! Learning one architecture: gather words, sweep the opcodes, learn every class, report.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;

use crate::class::{Class, Cx};
use crate::corpus;
use crate::explore::explore;
use crate::model::Literals;
use crate::oracle::{CONTROL_MASK, OTHER_CONTROL, Oracle, Pending};
use crate::store::{self, Learnt};
use crate::tree::{Question, grow};

/// `SM100a` → 100.
pub fn sm_of(arch: &str) -> u16 {
    arch.trim_start_matches("SM").trim_end_matches(['a', 'f']).parse().unwrap_or(0)
}

/// The SM numbers whose code an architecture's disassembler reads: its own first.
pub fn relatives(sm: u16) -> Vec<u16> {
    match sm {
        80..=89 => vec![80, 86, 87, 88, 89],
        100..=119 => vec![100, 101, 103, 107, 110],
        120..=129 => vec![120, 121],
        _ => vec![sm],
    }
}

pub fn learn(
    nvdisasm: &Path,
    arch: &str,
    corpora: &[PathBuf],
    cache: Option<PathBuf>,
    tries: bool,
    from: Option<&Path>,
    out: &Path,
) -> Result<()> {
    let start = Instant::now();
    let sm = sm_of(arch);
    let urz = if sm >= 100 { 255 } else { 63 };
    let mut oracle = Oracle::new(nvdisasm.to_owned(), arch, cache)?;
    let mut words: Vec<u128> = corpus::words(corpora, &relatives(sm))?.into_iter().collect();
    words.sort_unstable();
    eprintln!("{arch}: {} distinct words of real code", words.len());
    let mut lits = Literals::default();
    // A relative's model: what it says is tried first, and only where it is wrong a class is learnt from nothing.
    let relative = match from {
        Some(path) => Some(store::read(&std::fs::read_to_string(path)?, &mut lits)?),
        None => None,
    };
    let settle = |oracle: &mut Oracle| oracle.settle();

    // Label the corpus, then try every opcode over some payloads of it.
    while oracle.labels(&words).is_err() {
        settle(&mut oracle)?;
    }
    words.retain(|w| oracle.label(*w).is_some());
    let mut classes: BTreeMap<(u16, u32), Vec<u128>> = BTreeMap::new();
    for &word in &words {
        if let Some(label) = oracle.label(word) {
            classes.entry((word as u16 & 0xfff, label)).or_default().push(word);
        }
    }
    let mut sweep = if tries { sweep(&classes) } else { Vec::new() };
    sweep.extend(relative.iter().flat_map(|learnt| &learnt.models).map(|model| model.base));
    while oracle.labels(&sweep).is_err() {
        settle(&mut oracle)?;
    }
    let mut extra: BTreeMap<(u16, u32), Vec<u128>> = BTreeMap::new();
    for &word in &sweep {
        if let Some(label) = oracle.label(word) {
            let list = extra.entry((word as u16 & 0xfff, label)).or_default();
            if list.len() < 40 {
                list.push(word);
            }
        }
    }
    let bases: Vec<u128> = match &relative {
        Some(learnt) => learnt.models.iter().map(|model| model.base).collect(),
        None => classes.values().chain(extra.values()).filter_map(|list| list.first().copied()).collect(),
    };
    let explored = explore(&mut oracle, &bases)?;
    eprintln!(
        "{arch}: {} legal words of {} classes around known ones ({:.0?})",
        explored.values().map(Vec::len).sum::<usize>(),
        explored.len(),
        start.elapsed()
    );
    let begin = |opcode: u16, label: u32, corpus: &[u128], extra: &[u128]| {
        let explored = explored.get(&(opcode, label)).map(Vec::as_slice).unwrap_or(&[]);
        let mut class = Class::new(label, opcode, corpus.to_vec(), extra, explored);
        let words = corpus.iter().chain(extra).chain(explored);
        let model = relative.as_ref().and_then(|learnt| {
            let tree = learnt.trees.get(&opcode)?;
            words.copied().find_map(|word| learnt.models.get(tree.find(word) as usize))
        });
        if let Some(model) = model {
            class.adopt(model);
        }
        class
    };
    let mut all: Vec<Class> = Vec::new();
    let mut known: BTreeSet<(u16, u32)> = BTreeSet::new();
    for (&(opcode, label), list) in &classes {
        known.insert((opcode, label));
        let more = extra.get(&(opcode, label)).map(Vec::as_slice).unwrap_or(&[]);
        all.push(begin(opcode, label, list, more));
    }
    for (&(opcode, label), list) in &extra {
        if known.insert((opcode, label)) {
            all.push(begin(opcode, label, &[], list));
        }
    }
    for &(opcode, label) in explored.keys() {
        if known.insert((opcode, label)) {
            all.push(begin(opcode, label, &[], &[]));
        }
    }
    eprintln!("{arch}: {} classes in real code, {} in all ({:.0?})", classes.len(), all.len(), start.elapsed());

    let mut round = 0;
    let mut generation = 0;
    let generations = if tries { 3 } else { 0 };
    loop {
        let mut cx = Cx { oracle: &mut oracle, lits: &mut lits, urz };
        let mut waiting = 0;
        for class in &mut all {
            if !class.done()
                && let Err(Pending) = class.step(&mut cx)
            {
                waiting += 1;
            }
        }
        if waiting == 0 {
            // Classes that only probes have met: neighbours of real code. Learn them too, a few times over.
            let mut found: BTreeMap<(u16, u32), Vec<u128>> = BTreeMap::new();
            for (word, label) in oracle.all_labels() {
                let key = (word as u16 & 0xfff, label);
                if !known.contains(&key) {
                    found.entry(key).or_default().push(word);
                }
            }
            generation += 1;
            if found.is_empty() || generation > generations {
                break;
            }
            eprintln!("{arch}: {} more classes met by probes", found.len());
            for ((opcode, label), mut list) in found {
                known.insert((opcode, label));
                list.sort_unstable();
                let step = (list.len() / 100).max(1);
                let list: Vec<u128> = list.into_iter().step_by(step).collect();
                all.push(begin(opcode, label, &[], &list));
            }
            continue;
        }
        round += 1;
        let before = oracle.asked;
        let t = Instant::now();
        settle(&mut oracle)?;
        eprintln!(
            "{arch}: round {round}: {waiting} classes waiting, {} words asked in {:.1?} ({:.0?})",
            oracle.asked - before,
            t.elapsed(),
            start.elapsed()
        );
    }
    for class in &mut all {
        class.keep_better(&Cx { oracle: &mut oracle, lits: &mut lits, urz });
    }
    free_reuse(&mut oracle, &mut all)?;
    let learnt = assemble(arch, &oracle, &all);
    std::fs::write(out.join(format!("{arch}.model")), store::write(&learnt, &lits))?;
    std::fs::write(out.join(format!("{}.cases", file_stem(arch))), cases(arch, &oracle, &all, &lits, urz))?;
    let mut report = String::new();
    let mut wrong = 0;
    let mut total = 0;
    for class in &all {
        total += class.corpus.len();
        let bad = class.failures.iter().filter(|w| class.corpus.binary_search(w).is_ok()).count();
        wrong += bad;
        report.push_str(&format!(
            "{:03x} {} corpus {} bad {} loops {} failures {} dead {:?}\n  {}\n",
            class.opcode,
            oracle.name(class.label),
            class.corpus.len(),
            bad,
            class.loops,
            class.failures.len(),
            class.dead,
            class.describe(&lits)
        ));
        let mut buf = String::new();
        for &word in class.failures.iter().take(3) {
            let legal = class.model.predict(&lits, urz, word, &mut buf);
            report.push_str(&format!(
                "    !! {word:032x}\n       nvdisasm {}\n       model    {}\n",
                oracle.known(word).flatten().unwrap_or("-"),
                if legal { &buf } else { "illegal" }
            ));
        }
    }
    std::fs::write(out.join(format!("{arch}.report.txt")), report)?;
    eprintln!(
        "{arch}: {total} corpus words, {wrong} wrong; {} words asked in {} runs, {:.0?}",
        oracle.asked,
        oracle.runs,
        start.elapsed()
    );
    Ok(())
}

/// ptxas sets reuse bits also where there is no register to use again. Not all of them are legal beside the control that probes carry: where they are beside
/// another, and print nothing, they are no part of the encoding.
fn free_reuse(oracle: &mut Oracle, all: &mut [Class]) -> Result<()> {
    const REUSE: std::ops::Range<u8> = 122..126;
    let probe = |class: &Class, bit: u8| class.model.base & !CONTROL_MASK | OTHER_CONTROL | 1 << bit;
    let fixed: Vec<(usize, u8)> = all
        .iter()
        .enumerate()
        .filter(|(_, class)| class.dead.is_none())
        .flat_map(|(at, class)| REUSE.filter(move |bit| class.model.fixed >> bit & 1 == 1).map(move |bit| (at, bit)))
        .filter(|&(at, bit)| all[at].model.base >> bit & 1 == 0)
        .collect();
    let words: Vec<u128> = fixed.iter().map(|&(at, bit)| probe(&all[at], bit)).collect();
    let bases: Vec<u128> = fixed.iter().map(|&(at, _)| all[at].model.base).collect();
    while oracle.texts(&words).is_err() || oracle.texts(&bases).is_err() || oracle.labels(&words).is_err() {
        oracle.settle()?;
    }
    for (&(at, bit), (&word, &base)) in fixed.iter().zip(words.iter().zip(&bases)) {
        let class = &mut all[at];
        let is_same = oracle.known(word).flatten().is_some() && oracle.known(word) == oracle.known(base);
        if is_same && oracle.label(word) == Some(class.label) {
            class.model.fixed &= !(1 << bit);
        }
    }
    Ok(())
}

/// Words whose classes real code may not have shown: each payload of a class under the other forms of its opcode (register,
/// immediate, constant, uniform register), and a few payloads under every opcode.
fn sweep(classes: &BTreeMap<(u16, u32), Vec<u128>>) -> Vec<u128> {
    let payloads: Vec<u128> = classes.values().filter_map(|list| list.get(list.len() / 2).copied()).collect();
    let mut out = Vec::new();
    for payload in &payloads {
        for form in 0..8u128 {
            out.push(payload & !0xe00 | form << 9);
        }
    }
    let step = (payloads.len() / 8).max(1);
    for opcode in 0..4096u128 {
        for payload in payloads.iter().step_by(step) {
            out.push(payload & !0xfff | opcode);
        }
        out.push(corpus::normal(opcode | 0x7000));
        out.push(corpus::normal(opcode | 0x7000 | 0x0f << 80));
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// The models of the classes that were learnt, and for each opcode the tree that tells them apart.
fn assemble(arch: &str, oracle: &Oracle, all: &[Class]) -> Learnt {
    let mut learnt = Learnt { arch: arch.to_owned(), ..Learnt::default() };
    let mut number: BTreeMap<(u16, u32), u32> = BTreeMap::new();
    let mut questions: BTreeMap<u16, Vec<Question>> = BTreeMap::new();
    for class in all.iter().filter(|c| c.dead.is_none()) {
        number.insert((class.opcode, class.label), learnt.models.len() as u32);
        learnt.models.push(class.model.clone());
        learnt.opcodes.push(class.opcode);
        let list = questions.entry(class.opcode).or_default();
        for slot in class.model.slots.iter().filter(|s| s.bits.len() >= 3) {
            list.push(Question::Equal(slot.mask(), slot.mask()));
            list.push(Question::Equal(slot.mask(), 0));
        }
    }
    let mut samples: BTreeMap<u16, BTreeMap<u32, Vec<u128>>> = BTreeMap::new();
    for (word, label) in oracle.all_labels() {
        let opcode = word as u16 & 0xfff;
        samples.entry(opcode).or_default().entry(label).or_default().push(word);
    }
    for (opcode, by_label) in samples {
        let mut words = Vec::new();
        for (label, mut list) in by_label {
            list.sort_unstable();
            let step = (list.len() / 3000).max(1);
            let class = number.get(&(opcode, label)).copied().unwrap_or(u32::MAX);
            words.extend(list.into_iter().step_by(step).map(|w| (w, class)));
        }
        let mut list: Vec<Question> = crate::class::free_bits().map(Question::Bit).collect();
        list.extend(questions.remove(&opcode).unwrap_or_default());
        let tree = grow(&words, &list, 0);
        let wrong = words.iter().filter(|(w, l)| tree.find(*w) != *l).count();
        if wrong > 0 {
            eprintln!("{arch}: opcode {opcode:03x}: {wrong} of {} words fall into another class", words.len());
        }
        learnt.trees.insert(opcode, tree);
    }
    learnt
}

/// `SM100a` → `sm_100a`
fn file_stem(arch: &str) -> String {
    arch.replacen("SM", "sm_", 1)
}

/// A few words of every class with the text nvdisasm gives them at address 0: one case a line.
fn cases(arch: &str, oracle: &Oracle, all: &[Class], lits: &Literals, urz: i64) -> String {
    let mut out = format!(
        "# {}: word (high half first) and nvdisasm's text at address 0; written by sass-tables learn\n",
        file_stem(arch)
    );
    let mut buf = String::new();
    for class in all {
        // Three of a class that real code has, one of the others.
        let take = if class.corpus.is_empty() { 1 } else { 3 };
        let sample = class.sample();
        let step = (sample.len() / take).max(1);
        for word in sample.into_iter().step_by(step).take(take) {
            let Some(text) = oracle.known(word).flatten() else { continue };
            if !class.model.predict(lits, urz, word, &mut buf) || buf != text {
                continue;
            }
            let line = match text.rsplit_once('@') {
                // A target relative to the next instruction, at address 16.
                Some((head, target)) if !head.is_empty() => {
                    let (sign, digits) =
                        target.strip_prefix("-0x").map_or((1, target.trim_start_matches("0x")), |d| (-1, d));
                    let address = sign * i64::from_str_radix(digits, 16).unwrap_or(0) + 16;
                    let minus = if address < 0 { "-" } else { "" };
                    format!("{head}{minus}{:#x}", address.unsigned_abs())
                }
                _ => text.to_owned(),
            };
            out.push_str(&format!("{word:032x} {line}\n"));
        }
    }
    out
}
