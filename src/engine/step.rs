//! The next step of occupancy tried: each kernel compiled again, held to the registers with which one more block would fit.
//!
//! In: a unit that was just compiled and its PTX. Out: [`StepTried`] of each kernel that has a step: that ptxas compiles it and what it
//! spills, or in ptxas's words why it does not.

use rayon::prelude::*;

use super::compile::{self, Built, OVERRIDE, Session};
use super::inspect::Variant;
use crate::base::{Arch, work};
use crate::cubin::Image;
use crate::ptx;
use crate::report::{
    Advisory, Costs, Diagnostic, Kernel, RecordedLaunch, SetMaxNReg, Severity, StepTried, Unit, Wanted,
};

/// Asks ptxas about every kernel that has a step, one run for each: what it refuses for one says nothing of the others.
pub fn try_all(session: &Session, unit: &mut Unit, text: &str, module: &ptx::Module<'_>) {
    let Some(arch) = unit.arch.as_ref().and_then(|arch| arch.parse().ok()) else { return };
    let losses: Vec<Advisory> = unit.advisories.iter().filter(|said| said.is_loss()).cloned().collect();
    let attempt = Attempt { session, text, module, arch, recorded: unit.recorded_launch.as_ref(), losses: &losses };
    let deadline = work::deadline();
    let of = |kernel: &mut Kernel| {
        // The time that the input has is the thread's that began it.
        let tried = work::under(&deadline, || attempt.of(kernel));
        if let Some(occupancy) = &mut kernel.occupancy {
            occupancy.next_step_tried = tried;
        }
    };
    unit.kernels.par_iter_mut().for_each(of);
}

/// What all kernels of a unit share.
struct Attempt<'a> {
    session: &'a Session,
    text: &'a str,
    module: &'a ptx::Module<'a>,
    arch: Arch,
    recorded: Option<&'a RecordedLaunch>,
    /// The losses of performance that ptxas says of the kernels as they are.
    losses: &'a [Advisory],
}

impl Attempt<'_> {
    fn of(&self, kernel: &Kernel) -> Option<StepTried> {
        let step = kernel.occupancy.as_ref()?.next_step?;
        let own =
            [format!("--entry={}", kernel.name), format!("--maxrregcount={}", step.registers), OVERRIDE.to_owned()];
        let flags: Vec<String> = self.session.flags.iter().cloned().chain(own).collect();
        let (unit, built) = compile::build_with(self.session, &flags, self.text.as_bytes(), Some(self.arch));
        let refused = |(compiles, message): (Option<bool>, String)| StepTried {
            compiles,
            registers: None,
            blocks_per_sm: None,
            spill_store_bytes: None,
            spill_load_bytes: None,
            message: Some(message),
        };
        let Some(built) = built else { return Some(refused(why(&unit))) };
        let (made, loss) = self.kernel(&built, &flags, unit, kernel)?;
        let harms: Vec<String> = made.setmaxnreg.as_ref().and_then(harm).into_iter().chain(loss).collect();
        Some(StepTried {
            compiles: Some(true),
            registers: made.resources.registers,
            blocks_per_sm: made.occupancy.as_ref().and_then(|found| found.blocks_per_sm),
            spill_store_bytes: made.resources.spill_store_bytes,
            spill_load_bytes: made.resources.spill_load_bytes,
            message: (!harms.is_empty()).then(|| harms.join("; ")),
        })
    }

    /// A kernel of a cubin that was made for the attempt, and the loss of performance that ptxas says of it and not of the kernel as it is.
    fn kernel(
        &self,
        built: &Built<'_>,
        flags: &[String],
        mut unit: Unit,
        now: &Kernel,
    ) -> Option<(Kernel, Option<String>)> {
        let image = Image::parse(&built.cubin).ok()?;
        let variant = Variant {
            session: self.session,
            module: self.module,
            flags,
            recorded: self.recorded,
            evaluated: None,
            // Registers that setmaxnreg hands around are those of the launch.
            wanted: Wanted {
                live_values: false,
                warps: now.setmaxnreg.is_some() || now.memory.as_ref().is_some_and(|maps| maps.tensor.is_some()),
                costs: Costs::None,
                ..Wanted::ALL
            },
        };
        variant.join(&image, built, &mut unit);
        let is_new = |said: &&Advisory| {
            let alike = |known: &Advisory| known.kernel == said.kernel && known.code == said.code;
            said.is_loss() && said.kernel.as_deref() == Some(now.name.as_str()) && !self.losses.iter().any(alike)
        };
        let loss = unit.advisories.iter().find(is_new).map(|said| {
            let code = said.code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default();
            format!("ptxas then says {code}{}", said.message)
        });
        Some((unit.kernels.into_iter().find(|kernel| kernel.name == now.name)?, loss))
    }
}

/// What becomes of setmaxnreg where a block is launched with fewer registers.
fn harm(found: &SetMaxNReg) -> Option<String> {
    match &found.pool {
        _ if found.honoured == Some(false) => Some("ptxas then drops setmaxnreg".to_owned()),
        Some(pool) if pool.verdict == "never" => Some(format!("setmaxnreg then {}", pool.explanation)),
        Some(pool) if pool.verdict == "unknown" => {
            Some("whether setmaxnreg then has the registers it asks for is not known".to_owned())
        }
        _ => None,
    }
}

/// Whether ptxas says no, and what it says.
fn why(unit: &Unit) -> (Option<bool>, String) {
    let Some(error) = &unit.error else { return (None, "ptxas made no cubin".to_owned()) };
    if compile::cannot_override(error) {
        return (None, format!("this ptxas has no {OVERRIDE}; 12.4 and later have it"));
    }
    let said_no = |said: &&Diagnostic| said.severity == Severity::Error;
    match error.diagnostics.iter().find(said_no) {
        Some(said) => {
            let code = said.code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default();
            (Some(false), format!("{code}{}", said.message))
        }
        None => (None, error.message.clone()),
    }
}
