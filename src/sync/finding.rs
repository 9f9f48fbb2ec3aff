//! Verdicts in the words of the report: which rule a witness shows to be broken, and what it says.

use super::execute::Lack;
use super::execute::record::{Mark, What};
use super::machine::{Fault, SharedAddress};
use super::mend::{Change, Insertion, Mend};
use super::program::{Op, Program};
use super::stands::Stands;
use super::value::Basis;
use super::verdict::Verdict;
use super::witness::{Cause, Firmness, Shapes, Witness};
use crate::base::Line;
use crate::ptx::{Module, RegisterAction};
use crate::roles::Role;
use crate::sync::rules::finding::{Confidence, Finding, HANGS};
use crate::sync::rules::rule::Rule;

/// How sure it is that a launch has the shape that was executed.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// One of another size is refused.
    pub is_exact: bool,
    /// Nothing of it was guessed.
    pub is_known: bool,
}

/// The finding of a verdict, if it is one.
pub fn finding(
    verdict: &Verdict,
    program: &Program,
    module: &Module<'_>,
    shape: Shape,
    roles: &[Role],
    mend: Option<&Mend>,
) -> Option<Finding> {
    let Verdict::Wrong(witness) = verdict else { return None };
    // What the ISA leaves undefined may run all the same.
    let defined = match &witness.cause {
        Cause::Hang(stuck) => {
            let defined = |lack: Lack| !matches!(lack, Lack::Announcement { .. } | Lack::Lanes);
            witness.alike && stuck.iter().all(|group| defined(group.lacks))
        }
        _ => false,
    };
    let is_mended = mend.is_some_and(|mend| mend.change.is_evidence());
    // What memory brings was guessed; so was the shape of a cluster that the launch decides.
    let confidence = match (witness.basis, witness.always) {
        (Basis::Fact, true) if shape.is_known && shape.is_exact && defined => Confidence::Certain,
        // A change that mends it in one shape shows that the kernel can run in that.
        _ if !shape.is_known && witness.shapes > Shapes::Small => Confidence::Possible,
        _ if !shape.is_known && witness.shapes == Shapes::Small && !is_mended => Confidence::Possible,
        // Both the shape and what memory brings were guessed.
        _ if !shape.is_known && witness.basis >= Basis::Memory && !is_mended => Confidence::Possible,
        // A race that numbers from memory have a part in may be one of those numbers.
        (Basis::Memory | Basis::Order, false) => Confidence::Possible,
        // Arrivals that one block's late warp makes in another's stead add up in the end.
        _ if !witness.always && !is_mended && adds_up(&witness.cause) => Confidence::Possible,
        // A number that is wrong is so with all inputs, whatever mends it with no work.
        _ if witness.firmness == Firmness::Refuted => Confidence::Possible,
        _ if witness.firmness == Firmness::Firm || is_mended => Confidence::Likely,
        (Basis::Fact, _) => Confidence::Likely,
        _ => Confidence::Possible,
    };
    let (rule, line, message, mut reasoning) = match &witness.cause {
        Cause::Hang(stuck) => {
            let first = stuck.first()?;
            let message = format!("{HANGS}: {}", Stands::of(first, module, roles));
            // What nobody announced is at fault where it is issued.
            let line = match first.lacks {
                Lack::Announcement { .. } => first.copied.unwrap_or(first.line),
                Lack::Bytes => first.astray.unwrap_or(first.line),
                _ => first.line,
            };
            let astray = first.astray.filter(|_| first.lacks == Lack::Bytes);
            let reasoning =
                astray.map(|_| "the copy here is for another mbarrier, at which nobody has announced its bytes");
            // Where the others stand is in the witness.
            (rule_of(first.lacks), line, message, reasoning.unwrap_or_default().to_owned())
        }
        Cause::Undefined { fault, warp, line, .. } => {
            let (rule, what) = rule_broken(fault, program)?;
            (rule, *line, format!("warp {warp} {what}"), "the ISA leaves undefined what happens then".to_owned())
        }
        Cause::Bytes { line, text } => (Rule::EqualBytes, *line, text.clone(), String::new()),
    };
    // Where a change mends it, what it changes is what is wrong.
    let (rule, line) = match mend.and_then(|mend| Some((blamed(mend, program, &witness.cause)?, mend.line))) {
        Some((rule, at)) => (rule, at),
        None => (rule, line),
    };
    let how = circumstances(witness);
    let cure = mend.map(|mend| cure(mend, module)).unwrap_or_default();
    let first = mend.and_then(|mend| first_wrong(mend, program, module));
    let first = first.map(|(_, text)| format!("it goes wrong first where {text}")).unwrap_or_default();
    reasoning =
        [reasoning, how, first, cure].into_iter().filter(|part| !part.is_empty()).collect::<Vec<String>>().join("; ");
    Some(Finding { rule, confidence, line, message, reasoning })
}

/// Whether a warp arrives at another block's mbarrier in two phases at once: those who arrive late there make up for it.
fn adds_up(cause: &Cause) -> bool {
    match cause {
        Cause::Undefined { fault: Fault::TooManyArrivals { at, pending, .. }, rank, .. } => {
            *pending > 0 && at.rank() != *rank
        }
        _ => false,
    }
}

/// The rule that a change keeps again, where that stands on the line of the change.
fn blamed(mend: &Mend, program: &Program, cause: &Cause) -> Option<Rule> {
    let op = &program.code.get(mend.pc)?.op;
    let is_named = matches!(op, Op::Named { .. });
    match mend.change {
        // One of two that are the same.
        Change::Remove if matches!(op, Op::Copy { .. }) => Some(Rule::EqualBytes),
        Change::Remove if is_named => Some(Rule::NoMoreThreads),
        // Two counts in one round are no count that is too low.
        Change::Count { from: Some(from), to } if is_named && to > from && matches!(cause, Cause::Hang(_)) => {
            Some(Rule::NoMoreThreads)
        }
        Change::Count { .. } | Change::Id { .. } if is_named => Some(Rule::EnoughThreads),
        Change::Count { from: Some(from), to } if to > from => Some(Rule::NoMoreArrivals),
        Change::Count { .. } => Some(Rule::EnoughArrivals),
        Change::Bytes { .. } => Some(Rule::EqualBytes),
        Change::Parity => Some(Rule::PhaseToCome),
        Change::Registers { .. } => Some(Rule::PoolSuffices),
        Change::Insert { what: Insertion::Toggle { .. }, .. } => Some(Rule::PhaseToCome),
        Change::Insert { .. } | Change::Object { .. } | Change::Constant { .. } | Change::Mask { .. } => None,
        Change::Announce { .. } | Change::Arrive | Change::Id { .. } | Change::Remove => None,
    }
}

/// The first step that goes otherwise than with a change that mends: its line, and what is wrong there.
pub fn first_wrong(mend: &Mend, program: &Program, module: &Module<'_>) -> Option<(Line, String)> {
    let name = |at: SharedAddress| program.name_of(at.place(), |_| false);
    let over = |what: What| match what {
        What::Completes { at, phase } => Some(format!("phase {phase} of {}", name(at))),
        What::CompletesNamed { id, round } => Some(format!("round {round} of barrier {id}")),
        What::CompletesCluster { round } => Some(format!("round {round} of the cluster barrier")),
        _ => None,
    };
    let place = |mark: &Mark| format!("warp {} is at line {}", mark.warp.index, module.number_of(mark.line));
    let parting = mend.parting?;
    if let Some((mark, what)) = parting.does.and_then(|mark| Some((mark, over(mark.what)?))) {
        return Some((mark.line, format!("{}: {what} is over there, and should not be", place(&mark))));
    }
    let mark = parting.mended?;
    let text = match (over(mark.what), mark.what) {
        (Some(what), _) => format!("{}: {what} should be over there, and is not", place(&mark)),
        (None, What::Arrives { at, .. } | What::Commits { at }) => {
            format!("{} and does not arrive at {}", place(&mark), name(at))
        }
        (None, What::ArrivesNamed { id }) => format!("{} and does not arrive at barrier {id}", place(&mark)),
        (None, What::ArrivesCluster) => format!("{} and does not arrive at the cluster barrier", place(&mark)),
        (None, What::Ends) => format!("warp {} should end at line {}", mark.warp.index, module.number_of(mark.line)),
        _ => {
            let here = parting.does.map(|does| format!(", and is at line {}", module.number_of(does.line)));
            let here = here.unwrap_or_else(|| ", and nobody goes on".to_owned());
            format!("warp {} should be at line {}{here}", mark.warp.index, module.number_of(mark.line))
        }
    };
    Some((mark.line, text))
}

/// That a change mends, as findings tell it.
pub fn cure(mend: &Mend, module: &Module<'_>) -> String {
    format!("{}: executed so, it ends", in_words(mend, module))
}

/// A change as one would tell it.
pub fn in_words(mend: &Mend, module: &Module<'_>) -> String {
    let mut line = module.number_of(mend.line).to_string();
    for also in &mend.also {
        line += &format!(", {}", module.number_of(*also));
    }
    let instead = |from: Option<u64>| from.map(|from| format!(" instead of {from}")).unwrap_or_default();
    match mend.change {
        Change::Count { from, to } => format!("a count of {to}{} at line {line} mends it", instead(from)),
        Change::Bytes { from, to } => format!("announcing {to} bytes{} at line {line} mends it", instead(from)),
        Change::Announce { bytes } => format!("announcing {bytes} bytes (expect_tx) at line {line} mends it"),
        Change::Id { to } => format!("barrier {to} at line {line} mends it"),
        Change::Arrive => format!("arriving with the announcement (arrive.expect_tx) at line {line} mends it"),
        Change::Parity => format!("waiting for the other parity at line {line} mends it"),
        Change::Registers { from, to } => format!("{to} registers instead of {from} at line {line} mend it"),
        Change::Remove => format!("leaving out line {line} mends it"),
        Change::Object { .. } => format!("the mbarrier of another stage at line {line} mends it"),
        Change::Mask { to } => format!("a mask of {to:#x} at line {line} mends it"),
        Change::Constant { from, to } => format!("comparing with {to} instead of {from} at line {line} mends it"),
        Change::Insert { what, after } => {
            let what = match what {
                Insertion::Arrive { .. } => "arriving at the mbarrier".to_owned(),
                Insertion::Announce { bytes, .. } => format!("announcing {bytes} bytes (arrive.expect_tx)"),
                Insertion::Toggle { .. } => "toggling the parity".to_owned(),
                Insertion::ArriveNamed { id, .. } => format!("arriving at barrier {id}"),
                Insertion::ArriveCluster => "arriving at the cluster barrier".to_owned(),
                Insertion::WaitCluster => "waiting for the cluster barrier".to_owned(),
            };
            format!("{what} {} line {line} mends it", if after { "after" } else { "before" })
        }
    }
}

/// What was tried: inputs where they matter, and the order where another one ends.
fn circumstances(witness: &Witness) -> String {
    let inputs = match witness.basis {
        Basis::Fact => String::new(),
        Basis::Input => format!("executed with {}", witness.scenario.input),
        Basis::Memory | Basis::Order => {
            format!("executed with {} and {} for what memory brings", witness.scenario.input, witness.scenario.memory)
        }
    };
    let order = match (&witness.schedule, witness.always) {
        (_, true) => "in every order of the warps that was tried".to_owned(),
        (schedule, false) => schedule.words(),
    };
    [inputs, order].into_iter().filter(|part| !part.is_empty()).collect::<Vec<String>>().join(", ")
}

fn rule_of(lack: Lack) -> Rule {
    match lack {
        Lack::Registers => Rule::PoolSuffices,
        Lack::Arrivals { later: false } => Rule::EnoughArrivals,
        Lack::Arrivals { later: true } => Rule::NoMoreArrivals,
        Lack::Bytes => Rule::EqualBytes,
        Lack::Announcement { other: false } => Rule::Announced,
        Lack::Announcement { other: true } => Rule::EqualBytes,
        Lack::Threads { too_many: true, .. } => Rule::NoMoreThreads,
        Lack::Threads { too_many: false, .. } => Rule::EnoughThreads,
        Lack::Columns => Rule::TensorFreed,
        Lack::Lanes => Rule::WholeWarps,
        Lack::Cluster => Rule::WholeCluster,
        Lack::Everything { later: false } => Rule::ArrivedAt,
        Lack::Everything { later: true } => Rule::PhaseToCome,
    }
}

/// The broken rule and what to say of it; none for one that other checks tell, or that no barrier is part of.
fn rule_broken(fault: &Fault, program: &Program) -> Option<(Rule, String)> {
    let name = |at: &SharedAddress| program.name_of(at.place(), |_| false);
    Some(match fault {
        Fault::Counts { id, begun, given } if begun == given => (
            Rule::EnoughThreads,
            format!("comes to barrier {id} in a round of {begun} threads; one side gives the number, the other none"),
        ),
        Fault::Counts { id, begun, given } => (
            Rule::EnoughThreads,
            format!("comes to barrier {id} with a count of {given} while a round of {begun} is under way"),
        ),
        Fault::BarrierId(id) => (Rule::BarrierOperands, format!("uses barrier {id}; a block has 0 to 15")),
        Fault::BarrierCount { id, count } => {
            (Rule::BarrierOperands, format!("gives barrier {id} a count of {count}, which is no multiple of 32"))
        }
        Fault::NoMbarrier(at) => {
            (Rule::Initialised, format!("uses the mbarrier {}, which is not initialised then", name(at)))
        }
        Fault::MbarrierCount { at, count } => (
            Rule::MbarrierCount,
            format!("gives the mbarrier {} a count of {count}; 1 to 1,048,575 are possible", name(at)),
        ),
        Fault::TooManyArrivals { at, pending, came } => (
            Rule::NoMoreArrivals,
            format!("arrives {came} times at the mbarrier {} in a phase that lacks {pending}", name(at)),
        ),
        Fault::Unordered(at) => (
            Rule::NoMoreArrivals,
            format!(
                "comes to the mbarrier {} and nothing says that the phase before is over: it may count there",
                name(at)
            ),
        ),
        Fault::Unannounced(at) => (
            Rule::Announced,
            format!("copies for the mbarrier {}, and its phase can be over before the bytes come", name(at)),
        ),
        Fault::TooManyBytes { at, bytes } => (
            Rule::EqualBytes,
            format!("leaves {bytes} bytes open at the mbarrier {}: more than it can count", name(at)),
        ),
        Fault::ClusterOrder { waits: true } => {
            (Rule::ClusterArrived, "waits at the cluster barrier and has not arrived since its last wait".to_owned())
        }
        Fault::ClusterOrder { waits: false } => {
            (Rule::ClusterWaited, "arrives at the cluster barrier again and has not waited since".to_owned())
        }
        Fault::NotMember { lane, mask } => {
            (Rule::InMask, format!("gives the mask {mask:#x} in lane {lane}, which is not in it"))
        }
        Fault::Outlived(at) => (
            Rule::OutlivesCopies,
            format!(
                "copies into a block that can end before: nobody waits for this phase of the mbarrier {}",
                name(at)
            ),
        ),
        Fault::Registers { action: RegisterAction::Dec, has, count } => {
            (Rule::ToFewerOrMore, format!("gives registers back by setmaxnreg.dec to {count}, and has {has}: fewer"))
        }
        Fault::Registers { action: RegisterAction::Inc, has, count } => {
            (Rule::ToFewerOrMore, format!("asks for registers by setmaxnreg.inc to {count}, and has {has}: more"))
        }
        Fault::Rank(_) | Fault::Trap | Fault::BranchIndex(_) => return None,
    })
}
