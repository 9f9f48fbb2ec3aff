//! Which parts of what holds GPU code: flags and what they decide.

use std::path::PathBuf;

use anyhow::Result;
use clap::builder::PossibleValue;
use clap::{Args as ClapArgs, ValueEnum, ValueHint};

use super::limits::LimitArgs;
use crate::engine::contents::{Choose, KindFilter};
use crate::engine::settings::Within;

/// Which parts of a container.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct WithinArgs {
    /// Only entries whose container path, or the end of it, matches (* and ?); repeat for several
    #[arg(long, value_name = "GLOB", help_heading = "Libraries")]
    pub entry: Vec<String>,
    /// Compile the PTX inside a container, too
    #[arg(long, help_heading = "Libraries")]
    pub compile: bool,
    /// Also search host files outside their fatbin sections, where cuobjdump does not look
    #[arg(long, help_heading = "Libraries")]
    pub scan: bool,
}

impl WithinArgs {
    /// What the flags decide.
    pub fn within(&self, limits: &LimitArgs) -> Within {
        let WithinArgs { entry, compile, scan } = self.clone();
        Within { entry, compile, scan, follow_links: limits.follow_links }
    }
}

/// What to look at and which part of it.
#[derive(Clone, Debug, ClapArgs)]
pub struct ChooseArgs {
    /// Files or folders: PTX, cubins, fatbins, programs, libraries, archives, wheels, caches; - is standard input
    #[arg(required = true, value_hint = ValueHint::AnyPath)]
    pub inputs: Vec<PathBuf>,
    /// Only entries of this kind
    #[arg(long, value_name = "KIND", default_value = "all", help_heading = "Choosing")]
    pub kind: KindFilter,
    /// Only these architectures: repeat, or separate with commas
    #[arg(long, short, value_delimiter = ',', value_name = "SM", help_heading = "Choosing")]
    pub arch: Vec<String>,
    /// Only entries with a kernel whose mangled or demangled name matches (* and ?); repeat for several
    #[arg(long, short, value_name = "GLOB", help_heading = "Choosing")]
    pub kernel: Vec<String>,
    /// Only entries whose container path, or the end of it, matches (* and ?); repeat for several
    #[arg(long, value_name = "GLOB", help_heading = "Choosing")]
    pub entry: Vec<String>,
    /// Also search host files outside their fatbin sections, where cuobjdump does not look
    #[arg(long, help_heading = "Choosing")]
    pub scan: bool,
    /// How many threads to use [default: one a core]
    #[arg(long, short, value_name = "N", help_heading = "Choosing")]
    pub jobs: Option<usize>,
    /// How much an input may cost.
    #[command(flatten)]
    pub limits: LimitArgs,
}

impl ChooseArgs {
    /// What the flags decide.
    pub fn choose(&self) -> Result<Choose> {
        let ChooseArgs { inputs, kind, arch, kernel, entry, scan, jobs, limits } = self.clone();
        let within = Within { entry, compile: false, scan, follow_links: limits.follow_links };
        Ok(Choose { inputs, kind, arch, kernel, within, jobs, limits: limits.limits()? })
    }
}

impl ValueEnum for KindFilter {
    fn value_variants<'a>() -> &'a [Self] {
        &[KindFilter::All, KindFilter::Cubin, KindFilter::Ptx, KindFilter::Ltoir]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            KindFilter::All => ("all", "Everything"),
            KindFilter::Cubin => ("cubin", "Cubins"),
            KindFilter::Ptx => ("ptx", "PTX"),
            KindFilter::Ltoir => ("ltoir", "LTO-IR"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}
