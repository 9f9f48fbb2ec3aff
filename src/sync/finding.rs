//! Verdicts in the words of the report: which code a witness stands for, and what it says.

use super::execute::Lack;
use super::machine::{Fault, SharedAddress};
use super::mend::{Change, Mend};
use super::program::{Op, Program};
use super::stands::Stands;
use super::value::Basis;
use super::verdict::{Cause, Shapes, Verdict, Witness};
use crate::ptx::Module;
use crate::roles::Role;
use crate::sync::rules::finding::{Confidence, Finding};

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
    // What memory brings was guessed; so was the shape of a cluster that the launch decides.
    let confidence = match (witness.basis, witness.always) {
        (Basis::Fact, true) if shape.is_known && shape.is_exact && defined => Confidence::Certain,
        // A change that mends it in one shape shows that the kernel can run in that.
        _ if !shape.is_known && witness.shapes > Shapes::Small => Confidence::Possible,
        _ if !shape.is_known && witness.shapes == Shapes::Small && mend.is_none() => Confidence::Possible,
        // Both the shape and what memory brings were guessed.
        _ if !shape.is_known && witness.basis >= Basis::Memory && mend.is_none() => Confidence::Possible,
        // A race that numbers from memory have a part in may be one of those numbers.
        (Basis::Memory | Basis::Order, false) => Confidence::Possible,
        // Arrivals that one block's late warp makes in another's stead add up in the end.
        _ if !witness.always && mend.is_none() && adds_up(&witness.cause) => Confidence::Possible,
        _ if witness.is_firm || mend.is_some() => Confidence::Likely,
        (Basis::Fact, _) => Confidence::Likely,
        _ => Confidence::Possible,
    };
    let (code, line, message, mut reasoning) = match &witness.cause {
        Cause::Hang(stuck) => {
            let first = stuck.first()?;
            let message = format!("the kernel hangs: {}", Stands::of(first, module, roles));
            // What nobody announced is at fault where it is issued.
            let line = match first.lacks {
                Lack::Announcement { other: false } => first.copied.unwrap_or(first.line),
                _ => first.line,
            };
            // Where the others stand is in the witness.
            (code_of(first.lacks), line, message, String::new())
        }
        Cause::Undefined { fault, warp, line, .. } => {
            let (code, what) = rule(fault, program)?;
            (code, *line, format!("warp {warp} {what}"), "the ISA leaves undefined what happens then".to_owned())
        }
        Cause::Bytes { line, text } => ("PI306", *line, text.clone(), String::new()),
    };
    // Where a change mends it, what it changes is what is wrong.
    let (code, line) = match mend.and_then(|mend| Some((blamed(mend, program, &witness.cause)?, mend.line))) {
        Some((code, at)) => (code, at),
        None => (code, line),
    };
    let how = circumstances(witness);
    let cure = mend.map(|mend| format!("{}: executed so, it ends", in_words(mend, module))).unwrap_or_default();
    reasoning = [reasoning, how, cure].into_iter().filter(|part| !part.is_empty()).collect::<Vec<String>>().join("; ");
    Some(Finding { code, fatal: true, confidence, line, message, reasoning })
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

/// The code of what a change puts right, where that stands on the line of the change.
fn blamed(mend: &Mend, program: &Program, cause: &Cause) -> Option<&'static str> {
    let is_named = matches!(program.code.get(mend.pc as usize)?.op, Op::Named { .. });
    match mend.change {
        // Two counts in one round are no count that is too low.
        Change::Count { from: Some(from), to } if is_named && to > from && matches!(cause, Cause::Hang(_)) => {
            Some("PI204")
        }
        Change::Count { .. } | Change::Id { .. } if is_named => Some("PI203"),
        Change::Count { from: Some(from), to } if to > from => Some("PI310"),
        Change::Count { .. } => Some("PI305"),
        Change::Bytes { .. } => Some("PI306"),
        Change::Parity => Some("PI309"),
        Change::Registers { .. } => Some("PI102"),
        Change::Announce { .. } | Change::Arrive | Change::Id { .. } | Change::Remove => None,
    }
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

fn code_of(lack: Lack) -> &'static str {
    match lack {
        Lack::Registers => "PI102",
        Lack::Arrivals { later: false } => "PI305",
        Lack::Arrivals { later: true } => "PI310",
        Lack::Bytes => "PI306",
        Lack::Announcement { other: false } => "PI303",
        Lack::Announcement { other: true } => "PI306",
        Lack::Threads { too_many: true, .. } => "PI204",
        Lack::Threads { too_many: false, .. } => "PI203",
        Lack::Columns => "PI602",
        Lack::Lanes => "PI206",
        Lack::Cluster => "PI404",
        Lack::Everything { later: false } => "PI302",
        Lack::Everything { later: true } => "PI309",
    }
}

/// The code of a broken rule and what it says; none for one that other checks tell, or that no barrier is part of.
fn rule(fault: &Fault, program: &Program) -> Option<(&'static str, String)> {
    let name = |at: &SharedAddress| program.name_of(at.place(), |_| false);
    Some(match fault {
        Fault::Counts { id, begun, given } if begun == given => (
            "PI203",
            format!("comes to barrier {id} in a round of {begun} threads; one side gives the number, the other none"),
        ),
        Fault::Counts { id, begun, given } => {
            ("PI203", format!("comes to barrier {id} with a count of {given} while a round of {begun} is under way"))
        }
        Fault::BarrierId(id) => ("PI201", format!("uses barrier {id}; a block has 0 to 15")),
        Fault::BarrierCount { id, count } => {
            ("PI201", format!("gives barrier {id} a count of {count}, which is no multiple of 32"))
        }
        Fault::NoMbarrier(at) => ("PI301", format!("uses the mbarrier {}, which is not initialised then", name(at))),
        Fault::MbarrierCount { at, count } => {
            ("PI304", format!("gives the mbarrier {} a count of {count}; 1 to 1,048,575 are possible", name(at)))
        }
        Fault::TooManyArrivals { at, pending, came } => {
            ("PI310", format!("arrives {came} times at the mbarrier {} in a phase that lacks {pending}", name(at)))
        }
        Fault::Unordered(at) => (
            "PI310",
            format!(
                "comes to the mbarrier {} and nothing says that the phase before is over: it may count there",
                name(at)
            ),
        ),
        Fault::Unannounced(at) => {
            ("PI303", format!("copies for the mbarrier {}, and its phase can be over before the bytes come", name(at)))
        }
        Fault::TooManyBytes { at, bytes } => {
            ("PI306", format!("leaves {bytes} bytes open at the mbarrier {}: more than it can count", name(at)))
        }
        Fault::ClusterOrder { waits: true } => {
            ("PI401", "waits at the cluster barrier and has not arrived since its last wait".to_owned())
        }
        Fault::ClusterOrder { waits: false } => {
            ("PI402", "arrives at the cluster barrier again and has not waited since".to_owned())
        }
        Fault::NotMember { lane, mask } => {
            ("PI207", format!("gives the mask {mask:#x} in lane {lane}, which is not in it"))
        }
        Fault::Outlived(at) => (
            "PI311",
            format!(
                "copies into a block that can end before: nobody waits for this phase of the mbarrier {}",
                name(at)
            ),
        ),
        Fault::Registers { held, count } => {
            ("PI103", format!("gives registers back by setmaxnreg.dec to {count}, and holds {held}: fewer"))
        }
        Fault::Rank(_) | Fault::Trap | Fault::BranchIndex(_) | Fault::Columns(_) => {
            return None;
        }
    })
}
