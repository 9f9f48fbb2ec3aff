//! Places that executions come to and that are wrong by themselves, whoever else is there: past the end of a variable, over an mbarrier,
//! in columns that were not allocated.
//!
//! In: what each instruction touched in each execution. A place counts where nothing but the code decides that it is come to, or where
//! executions with different inputs come to the same places: the first of an instruction, or those of a ring, which come round. How far
//! a loop goes otherwise is for its input to say.

use std::collections::BTreeSet;

use super::super::execute::footprint::{MemoryKind, OBJECT, Span, Touched};
use super::super::execute::{Misuse, Misused};
use super::super::program::{Access, InstrId, MbarrierOp, Op, Program, Variable};
use super::super::value::Basis;
use crate::base::FastSet;
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// What one execution touched.
#[derive(Default)]
pub struct Run {
    /// By instruction and operand.
    pub touched: Vec<Touched>,
    /// Columns of tensor memory that a block held at once, at most.
    pub columns_held: u64,
    /// Uses of tensor memory that are wrong.
    pub misused: Vec<Misused>,
}

/// A place that is wrong.
#[derive(Clone, Debug, PartialEq)]
struct Wrong {
    rule: Rule,
    pc: InstrId,
    message: String,
    reasoning: &'static str,
    /// What it rests on that it is come to.
    basis: Basis,
    /// What has to be the same in another execution.
    places: BTreeSet<u64>,
}

impl Wrong {
    fn is_same(&self, other: &Wrong) -> bool {
        (self.rule, self.pc) == (other.rule, other.pc) && self.places == other.places
    }
}

/// Whether an execution comes to something that another one with other inputs would confirm.
pub fn is_suspicious(program: &Program, run: &Run, given_back: bool) -> bool {
    wrong_places(program, run, given_back).iter().any(|wrong| wrong.basis > Basis::Fact)
}

/// What is wrong in all executions: one finding for each rule. `given_back` where memory of mbarriers is used for something else.
pub fn findings(program: &Program, runs: &[Run], given_back: bool) -> Vec<Finding> {
    let of_runs: Vec<Vec<Wrong>> = runs.iter().map(|run| wrong_places(program, run, given_back)).collect();
    // What nothing has set where a loop before it makes no trip is set where it makes some: kernels are made for those.
    let is_right_in = |(run, wrong_there): (&Run, &Vec<Wrong>), wrong: &Wrong| {
        run.touched.iter().any(|touched| touched.pc == wrong.pc)
            && !wrong_there.iter().any(|other| (other.rule, other.pc) == (wrong.rule, wrong.pc))
    };
    let is_shown = |wrong: &Wrong| {
        let shows = of_runs.iter().filter(|run| run.iter().any(|other| other.is_same(wrong))).count();
        let depends = wrong.rule == Rule::TensorFirst && runs.iter().zip(&of_runs).any(|run| is_right_in(run, wrong));
        wrong.basis == Basis::Fact || shows > 1 && !depends
    };
    let mut told: FastSet<Rule> = FastSet::default();
    let firm = of_runs.iter().flatten().filter(|wrong| is_shown(wrong));
    firm.filter(|wrong| told.insert(wrong.rule))
        .filter_map(|wrong| {
            let line = program.code.get(wrong.pc)?.line;
            let (rule, confidence) = (wrong.rule, Confidence::Likely);
            let message = wrong.message.clone();
            Some(Finding { rule, confidence, line, message, reasoning: wrong.reasoning.to_owned() })
        })
        .collect()
}

fn wrong_places(program: &Program, run: &Run, given_back: bool) -> Vec<Wrong> {
    let is_object = |touched: &&Touched| touched.operand == OBJECT.0 && touched.memory == MemoryKind::Shared;
    let is_init = |touched: &&Touched| {
        let op = program.code.get(touched.pc).map(|instr| &instr.op);
        matches!(op, Some(Op::Mbarrier { op: MbarrierOp::Init { .. }, .. }))
    };
    let all: Vec<&Touched> = run.touched.iter().filter(is_object).collect();
    let mut used: Vec<&Touched> = all.iter().copied().filter(|touched| !is_init(touched)).collect();
    // Where some are used, what is initialised and then used by nobody may be overwritten.
    if used.is_empty() {
        used = all;
    }
    let spans = used.into_iter().flat_map(|touched| touched.spans.iter());
    let objects: BTreeSet<u64> = spans.filter(|span| span.place == Basis::Fact).map(|span| span.start).collect();
    let kept = |found: &&Misused| match found.misuse {
        Misuse::Object { at } => !given_back && objects.contains(&at),
        _ => true,
    };
    let mut found: Vec<Wrong> = run.misused.iter().filter(kept).filter_map(|found| misused(program, found)).collect();
    for touched in run.touched.iter().filter(|touched| touched.unknown == 0 && touched.operand != OBJECT.0) {
        let is_copy = program.code.get(touched.pc).is_some_and(|instr| is_copy(&instr.op));
        for span in touched.spans.iter().filter(|span| span.place == Basis::Fact && counts(touched, span)) {
            let wrong = match touched.memory {
                MemoryKind::Tensor => beyond(touched, span, run.columns_held),
                MemoryKind::Shared if is_copy => {
                    let over = || over(program, touched, span, &objects).filter(|_| !given_back);
                    past(program, touched, span).or_else(over)
                }
                MemoryKind::Shared => None,
            };
            found.extend(wrong);
        }
    }
    found
}

/// Whether a place is come to whatever the inputs are, as far as one execution tells.
fn counts(touched: &Touched, span: &Span) -> bool {
    span.path == Basis::Fact || span.path == Basis::Input && (span.pass == 0 || touched.returned)
}

fn is_copy(op: &Op) -> bool {
    use super::super::program::DataOp;
    matches!(op, Op::Copy { .. } | Op::Data(DataOp::BulkStore { .. }))
}

/// What two executions have to have in common: the place, or all of those that come round.
fn places(touched: &Touched, span: &Span) -> BTreeSet<u64> {
    if span.pass == 0 { BTreeSet::from([span.start]) } else { touched.spans.iter().map(|span| span.start).collect() }
}

fn wrong(rule: Rule, (touched, span): (&Touched, &Span), message: String, reasoning: &'static str) -> Wrong {
    Wrong { rule, pc: touched.pc, message, reasoning, basis: span.path, places: places(touched, span) }
}

/// Columns that were not allocated.
fn beyond(touched: &Touched, span: &Span, held: u64) -> Option<Wrong> {
    let message = format!("columns {} to {} are used of {held} that were allocated", span.start, span.end() - 1);
    let reasoning = "columns that were not allocated belong to others, or to nobody";
    (held > 0 && span.end() > held).then(|| wrong(Rule::TensorWithin, (touched, span), message, reasoning))
}

/// A copy that goes past the end of the variable that it starts in.
fn past(program: &Program, touched: &Touched, span: &Span) -> Option<Wrong> {
    let at = program.variables.partition_point(|variable| variable.start <= span.start);
    let Variable { name, start, bytes, .. } = at.checked_sub(1).and_then(|at| program.variables.get(at))?;
    let bytes = (*bytes)?;
    let from = span.start - start;
    if from >= bytes || from + span.count <= bytes {
        return None;
    }
    let verb = if touched.access == Access::Read { "reads" } else { "writes" };
    let message = format!("{verb} bytes {from} to {} of {name}, which has {bytes}", from + span.count - 1);
    Some(wrong(
        Rule::WithinVariable,
        (touched, span),
        message,
        "what lies before and behind a variable belongs to others",
    ))
}

/// A copy into the memory of an mbarrier.
fn over(program: &Program, touched: &Touched, span: &Span, objects: &BTreeSet<u64>) -> Option<Wrong> {
    let object = objects.range(span.start.saturating_sub(OBJECT.1 - 1)..span.end()).next()?;
    if touched.access == Access::Read {
        return None;
    }
    let (place, object) = (program.name_of(span.start, |_| false), program.name_of(*object, |_| false));
    let message = format!("{} bytes or more are copied to {place}, where the mbarrier {object} is", span.count);
    let reasoning = "an mbarrier is touched by mbarrier instructions alone, until mbarrier.inval gives its memory back";
    Some(wrong(Rule::MbarrierKept, (touched, span), message, reasoning))
}

fn misused(program: &Program, found: &Misused) -> Option<Wrong> {
    let Misused { pc, misuse, basis } = *found;
    let (rule, message, reasoning, place) = match misuse {
        Misuse::Unset { column } => (
            Rule::TensorFirst,
            "the first multiplication adds to an accumulator that nothing has set".to_owned(),
            "with enable-input-d the product is added to what tensor memory holds",
            column,
        ),
        Misuse::Product { column, by, is_read } => {
            let line = program.code.get(by)?.line;
            let does = if is_read { "reads A from" } else { "multiplies into" };
            (
                Rule::TensorOverlap,
                format!("{does} column {column} of tensor memory, where the product of line {line} may be under way"),
                "multiplications follow each other of themselves into one accumulator of one shape: otherwise tcgen05.commit, and a \
                 wait for it, come between",
                column,
            )
        }
        Misuse::Both { rank } => (
            Rule::IssuedOnce,
            "both blocks of a pair issue this tcgen05.mma: one of them must".to_owned(),
            "with .cta_group::2 one thread of the pair issues it, in the block with the even rank",
            rank,
        ),
        Misuse::Rank { rank } => (
            Rule::WithinCluster,
            format!("this address is in block {rank}, which the cluster does not have"),
            "the rank that mapa is given is below the size of the cluster",
            rank,
        ),
        Misuse::Object { at } => (
            Rule::MbarrierKept,
            format!("writes to the memory of the mbarrier {}", program.name_of(at, |_| false)),
            "an mbarrier is touched by mbarrier instructions alone, until mbarrier.inval gives its memory back",
            at,
        ),
        Misuse::Parted { one, other, warp } => (
            Rule::BranchUniform,
            format!("lanes {one} and {other} of warp {warp} go different ways at this branch, which says .uni"),
            "with .uni all lanes of a warp take a branch, or none does: without it they may part",
            0,
        ),
        Misuse::Left { lanes, at } => (
            Rule::WholeWarps,
            format!(
                "{lanes} lanes of a warp that comes to this barrier have gone another way at line {}",
                program.code.get(at)?.line
            ),
            "all lanes of a warp run it together, in every turn of a loop: trips have to be the same for all of them",
            0,
        ),
        Misuse::Round { id, by } => (
            Rule::NoMoreThreads,
            format!(
                "comes to barrier {id} and may count in the round before, which line {} comes to",
                program.code.get(by)?.line
            ),
            "nothing says that the round before is over: those that wait in it may go on with others than those they wait for; each \
             purpose has a barrier of its own",
            id,
        ),
        Misuse::Astray { at, announced, by } => (
            Rule::EqualBytes,
            format!(
                "copies for the mbarrier {}, and line {} has announced the bytes at {}",
                program.name_of(at, |_| false),
                program.code.get(by)?.line,
                program.name_of(announced, |_| false)
            ),
            "a copy signals the mbarrier at which its bytes are announced, that of the stage that it fills",
            0,
        ),
        Misuse::Source { room } => (
            Rule::SourceSize,
            format!("cp.async of {room} bytes is given what is left of a row, and that may be more"),
            "src-size is at most cp-size: the rest is filled with zeros",
            room,
        ),
        Misuse::Lane { lane, warp } => {
            let own = warp % 4 * 32;
            (
                Rule::TensorLanes,
                format!("warp {warp} is at lane {lane} of tensor memory, and {own} to {} are its own", own + 31),
                "warp w of a warpgroup reaches lanes 32 (w % 4) to 32 (w % 4) + 31: bits 16 to 31 of an address are the lane",
                lane,
            )
        }
    };
    // How far lanes go on together, a host may see to.
    let most = match misuse {
        Misuse::Parted { .. } | Misuse::Left { .. } => Basis::Fact,
        _ => Basis::Input,
    };
    (basis <= most).then(|| Wrong { rule, pc, message, reasoning, basis, places: BTreeSet::from([place]) })
}
