//! The timelines of a PTX file's kernels.

use anyhow::{Result, bail};

use super::compile::out_of_time;
use super::glob::Globs;
use super::input::{Input, Kind};
use crate::base::Limits;
use crate::base::work::{self, Deadline};
use crate::ptx::{self, FunctionKind};
use crate::report::timeline::{NoTimeline, Timeline, timeline};
use crate::report::{LaunchHints, demangle, shorten};

/// What is to be drawn.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// Patterns for names of kernels; none means all.
    pub kernel: Vec<String>,
    /// Threads of a block, for kernels whose directives do not say.
    pub threads: Option<u32>,
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

/// The kernel that was meant, as far as its spelling tells, and how many others there are.
fn nearest(asked: &[String], names: &[&str]) -> String {
    const LOOKED_AT: usize = 1000;
    let close =
        names.iter().take(LOOKED_AT).flat_map(|name| asked.iter().map(move |asked| (distance(asked, name), name)));
    let Some((_, name)) = close.min_by_key(|(distance, _)| *distance) else { return "it has none".to_owned() };
    let name = shorten(name, 100);
    match names.len() {
        1 => format!("it has {name}"),
        count => format!("the nearest of its {count} is {name}"),
    }
}

/// Levenshtein's distance, of the first characters.
fn distance(a: &str, b: &str) -> usize {
    const CHARACTERS: usize = 100;
    let b: Vec<char> = b.chars().take(CHARACTERS).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, x) in a.chars().take(CHARACTERS).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (to, y) in b.iter().enumerate() {
            let cost = (diagonal + usize::from(x != *y)).min(row[to] + 1).min(row[to + 1] + 1);
            diagonal = std::mem::replace(&mut row[to + 1], cost);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_have_a_distance() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(nearest(&["gem".to_owned()], &["softmax", "gemm"]), "the nearest of its 2 is gemm");
        assert_eq!(nearest(&["x".to_owned()], &["gemm"]), "it has gemm");
    }
}
