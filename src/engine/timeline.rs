//! The timelines of a PTX file's kernels.

use anyhow::{Result, bail};

use super::compile::out_of_time;
use super::glob::{Globs, nearest};
use super::input::{Input, Kind};
use crate::base::work::{self, Deadline};
use crate::base::{Limits, Threads};
use crate::ptx::{self, FunctionKind};
use crate::report::timeline::{NoTimeline, Timeline, timeline};
use crate::report::{LaunchHints, demangle};

/// What is to be drawn.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// Patterns for names of kernels; none means all.
    pub kernel: Vec<String>,
    /// Threads of a block, for kernels whose directives do not say.
    pub threads: Option<Threads>,
    /// How many steps.
    pub steps: u64,
    /// How much it may cost.
    pub limits: Limits,
}

/// The timelines, and the kernels that have none, with the reason.
pub type Drawn = (Vec<Timeline>, Vec<(String, NoTimeline)>);

/// Executes the chosen kernels of a PTX file.
pub fn draw(input: &Input, drawing: &Drawing) -> Result<Drawn> {
    match input.kind() {
        Ok(Kind::Ptx) => {}
        Ok(Kind::Cubin) => bail!(
            "{} is a cubin: a timeline is drawn from PTX, whose barriers are executed; expected PTX text",
            input.name
        ),
        Err(error) => bail!("{}: {error}", input.name),
    }
    let time = drawing.limits.time;
    let drawn = work::until(Deadline::after(time), || draw_text(drawing, &input.name, &input.text()));
    drawn.unwrap_or_else(|_| bail!("{}: {}", input.name, out_of_time(time)))
}

fn draw_text(args: &Drawing, input: &str, text: &str) -> Result<Drawn> {
    let globs = Globs::new(&args.kernel);
    let module = ptx::parse(text);
    let kernels: Vec<_> = module
        .functions()
        .filter(|function| function.is_definition() && function.kind() == FunctionKind::Entry)
        .collect();
    if kernels.is_empty() {
        bail!("{input} has no kernel: expected PTX with an .entry");
    }
    let launch = LaunchHints { threads: args.threads, ..LaunchHints::default() };
    let (mut timelines, mut refused) = (Vec::new(), Vec::new());
    let mut matched = false;
    for function in &kernels {
        let name = function.name();
        if !globs.matches([name].into_iter().chain(demangle(name).as_deref())) {
            continue;
        }
        matched = true;
        match timeline(function, &launch, args.steps) {
            Ok(found) => timelines.push(found),
            Err(why) => refused.push((name.to_owned(), why)),
        }
    }
    if !matched {
        let names: Vec<&str> = kernels.iter().map(|function| function.name()).collect();
        bail!("--kernel {} matches no kernel of {input}; {}", args.kernel.join(", "), nearest(&args.kernel, &names));
    }
    Ok((timelines, refused))
}
