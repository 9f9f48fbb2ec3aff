//! From single executions to an answer: which inputs and schedules are tried, and what they say together.

mod inputs;
mod judge;
mod limits;
mod problems;

pub use inputs::SIZES;
pub use judge::find_culprit;
use judge::{Judge, LARGE, NOT_MADE_FOR, OTHER_SHAPE};
pub use limits::{Effort, Limits};
pub use problems::{Problems, problems_end, problems_in};

use super::execute::{Budget, Launch};
use super::program::Program;
use super::value::Basis;
use super::witness::{Cause, Firmness, Shapes, Witness};
use crate::base::Line;
use serde::{Deserialize, Serialize};

/// What executing a kernel says.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It ends, whatever was tried.
    Ends {
        /// What its decisions rest on.
        basis: Basis,
        /// Whether something was left untried: the budget was spent, or some inputs decided nothing.
        cut: bool,
        /// What may be a fault, and is one where a change ends it: arrivals that another schedule counts in another phase, which
        /// harms nobody where as many come in the end, or a problem that hangs, whose sizes were made up.
        suspects: Vec<Witness>,
        /// Whether some inputs lead to blocks of the cluster that the launch does not have.
        lacks_blocks: bool,
        /// The first line that synchronises and that none of the inputs came to, where they decide that.
        unreached: Option<Line>,
        /// What goes wrong with counts that the blocks of a cluster do not share evenly, where it ends with those that they do: hosts
        /// round counts up to whole clusters, but nothing in the PTX says so.
        uneven: Option<Box<Witness>>,
    },
    /// It goes wrong.
    Wrong(Box<Witness>),
    /// It cannot be told.
    Undecided {
        /// What decides.
        line: Line,
        /// Why that is not known.
        why: &'static str,
    },
}

impl Verdict {
    /// What was left untried of a kernel that ends: why, and the line that it is about.
    pub fn untried(&self) -> (Option<Line>, Option<&'static str>) {
        match self {
            Verdict::Ends { unreached: Some(line), .. } => {
                (Some(*line), Some("nothing that was tried comes to this line"))
            }
            Verdict::Ends { cut: true, .. } => (None, Some("not everything could be tried")),
            _ => (None, None),
        }
    }
}

/// What executing a kernel's barriers says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It ends in every order of the warps that was tried.
    Ends,
    /// It hangs in every one.
    Hangs,
    /// It hangs in one.
    MayHang,
    /// It does what the ISA leaves undefined.
    Undefined,
    /// It cannot be told.
    Undecided,
}

impl Verdict {
    /// The verdict in a word.
    pub fn answer(&self) -> Answer {
        match self {
            Verdict::Ends { .. } => Answer::Ends,
            Verdict::Wrong(witness) => match witness.cause {
                Cause::Hang(_) if witness.always => Answer::Hangs,
                Cause::Hang(_) => Answer::MayHang,
                Cause::Undefined { .. } | Cause::Bytes { .. } => Answer::Undefined,
            },
            Verdict::Undecided { .. } => Answer::Undecided,
        }
    }
}

/// Executes a kernel in launches of several shapes, any of which may be the one that it is made for: what goes wrong must go
/// wrong in each that it can run in at all. Gives the launch that the verdict is of, too, and what it took.
pub fn judge<'l>(program: &Program, launches: &'l [Launch], limits: Limits) -> Option<(Verdict, &'l Launch, Budget)> {
    let mut judge = Judge::new(program, limits);
    let (mut wrong, mut undecided): (Option<(Box<Witness>, &Launch)>, _) = (None, None);
    let mut shapes = Shapes::All;
    let mut is_refuted = false;
    let mut small: Option<(Verdict, &Launch)> = None;
    let fitting = judge.fitting(launches).map(|at| &launches[at]);
    let others = launches.iter().filter(|launch| fitting.is_none_or(|fitting| fitting.cluster != launch.cluster));
    for launch in fitting.into_iter().chain(others) {
        if let Some((witness, _)) = &wrong
            && (is_refuted || witness.firmness != Firmness::Firm)
            && launch.blocks() > LARGE
        {
            // What is not sure in smaller ones does not become so in these, which take many times as long.
            shapes = shapes.max(Shapes::Small);
            continue;
        }
        if let Some((witness, _)) = &wrong
            && let Some(goes_wrong) = judge.goes_wrong_in(launch, witness)
        {
            shapes = shapes.max(match goes_wrong {
                true => Shapes::All,
                false if launch.blocks() >= LARGE => Shapes::Small,
                false => Shapes::Some,
            });
            // Inputs that a kernel is not made for hang it in every shape; others tell so in the one that it is made for.
            if goes_wrong
                && launch.blocks() == 1
                && let Verdict::Wrong(alone) = judge.launch(launch)
            {
                is_refuted |= alone.firmness == Firmness::Refuted;
            }
            continue;
        }
        match judge.launch(launch) {
            // With the inputs that lead further there are too few blocks: it is made for more.
            verdict @ Verdict::Ends { lacks_blocks: true, .. } => small = small.or(Some((verdict, launch))),
            verdict @ Verdict::Ends { .. } => return Some((verdict, launch, judge.took())),
            // What holds in all of them is no surer than in the one where it is least so.
            Verdict::Wrong(witness) if wrong.is_none() || witness.firmness != Firmness::Firm => {
                wrong = Some((witness, launch));
            }
            Verdict::Wrong(_) => {}
            verdict @ Verdict::Undecided { line, why } => {
                let is_of_inputs = why == NOT_MADE_FOR;
                shapes = shapes.max(if is_of_inputs || why == OTHER_SHAPE { Shapes::All } else { Shapes::Some });
                // Where inputs are refused alone and in a cluster, no shape changes that.
                let is_known = matches!(
                    undecided,
                    Some((Verdict::Undecided { line: known, why: known_why }, _)) if (known, known_why) == (line, why)
                );
                if is_of_inputs && is_known && wrong.is_none() {
                    break;
                }
                undecided = undecided.or(Some((verdict, launch)));
            }
        }
    }
    let wrong = wrong.map(|(mut witness, launch)| {
        witness.shapes = shapes;
        if is_refuted {
            witness.firmness = Firmness::Refuted;
        }
        (Verdict::Wrong(witness), launch)
    });
    // Where it ends with all that a launch has the blocks for, only what is so in every larger one and with all inputs says otherwise.
    let is_sure = |verdict: &Verdict| matches!(verdict, Verdict::Wrong(witness) if witness.shapes == Shapes::All && witness.firmness == Firmness::Firm);
    let wrong = wrong.filter(|(verdict, _)| small.is_none() || is_sure(verdict));
    wrong.or(small).or(undecided).map(|(verdict, launch)| (verdict, launch, judge.took()))
}
