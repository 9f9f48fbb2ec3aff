//! What is measured of a kernel, and which way is worse.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::policy::Tolerance;
use crate::report::{Kernel, hottest_cycles};

/// Which way a figure gets worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// More is worse.
    LessIsBetter,
    /// Less is worse.
    MoreIsBetter,
}

/// One figure of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Registers a thread.
    Registers,
    /// Bytes of spill stores, as ptxas counts them.
    SpillStoreBytes,
    /// Bytes of spill loads, as ptxas counts them.
    SpillLoadBytes,
    /// Spill instructions the cubin marks.
    SpillInstructions,
    /// The stack frame.
    StackBytes,
    /// Static shared memory.
    SmemBytes,
    /// Named barriers: the highest id and one.
    Barriers,
    /// The most vector registers alive at once.
    PeakLive,
    /// Instructions, padding left out.
    Instructions,
    /// Bytes of machine code.
    CodeBytes,
    /// Warps an SM holds: the occupancy.
    WarpsPerSm,
    /// Cycles of a turn of the hottest loop: an estimate, made where it is asked for.
    LoopCycles,
}

impl Metric {
    /// All of them, in the order they are written.
    pub const ALL: [Metric; 12] = [
        Metric::Registers,
        Metric::SpillStoreBytes,
        Metric::SpillLoadBytes,
        Metric::SpillInstructions,
        Metric::StackBytes,
        Metric::SmemBytes,
        Metric::Barriers,
        Metric::PeakLive,
        Metric::Instructions,
        Metric::CodeBytes,
        Metric::WarpsPerSm,
        Metric::LoopCycles,
    ];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Registers => "registers",
            Metric::SpillStoreBytes => "spill_store_bytes",
            Metric::SpillLoadBytes => "spill_load_bytes",
            Metric::SpillInstructions => "spill_instructions",
            Metric::StackBytes => "stack_bytes",
            Metric::SmemBytes => "smem_bytes",
            Metric::Barriers => "barriers",
            Metric::PeakLive => "peak_live",
            Metric::Instructions => "instructions",
            Metric::CodeBytes => "code_bytes",
            Metric::WarpsPerSm => "warps_per_sm",
            Metric::LoopCycles => "loop_cycles",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Metric::Registers => "registers",
            Metric::SpillStoreBytes => "spill stores (B)",
            Metric::SpillLoadBytes => "spill loads (B)",
            Metric::SpillInstructions => "spill instructions",
            Metric::StackBytes => "stack (B)",
            Metric::SmemBytes => "static shared (B)",
            Metric::Barriers => "barriers",
            Metric::PeakLive => "peak live registers",
            Metric::Instructions => "instructions",
            Metric::CodeBytes => "code (B)",
            Metric::WarpsPerSm => "warps per SM",
            Metric::LoopCycles => "cycles of the hottest loop",
        }
    }

    /// Which way is worse.
    pub fn sense(self) -> Sense {
        if self == Metric::WarpsPerSm { Sense::MoreIsBetter } else { Sense::LessIsBetter }
    }

    /// How much worse it may get when the policy does not say: nothing, but for the size of the code, which moves with every
    /// change and says little by itself.
    pub fn default_tolerance(self) -> Tolerance {
        match self {
            Metric::Instructions | Metric::CodeBytes | Metric::LoopCycles => Tolerance::Percent(5.0),
            _ => Tolerance::Absolute(0),
        }
    }

    /// Whether it is compared where the policy does not say: an estimate is not.
    pub fn is_compared(self) -> bool {
        self != Metric::LoopCycles
    }

    /// How much worse `after` is than `before`: 0 where it is not.
    pub fn loss(self, before: u64, after: u64) -> u64 {
        match self.sense() {
            Sense::LessIsBetter => after.saturating_sub(before),
            Sense::MoreIsBetter => before.saturating_sub(after),
        }
    }

    /// The figure of a kernel, where it is known. A peak that is not exact is not known.
    pub fn of(self, kernel: &Kernel) -> Option<u64> {
        let resources = &kernel.resources;
        match self {
            Metric::Registers => resources.registers.map(u64::from),
            Metric::SpillStoreBytes => resources.spill_store_bytes,
            Metric::SpillLoadBytes => resources.spill_load_bytes,
            Metric::SpillInstructions => kernel.spills.as_ref().map(|spills| spills.len() as u64),
            Metric::StackBytes => resources.stack_bytes,
            Metric::SmemBytes => resources.smem_bytes,
            Metric::Barriers => resources.barriers.map(u64::from),
            Metric::PeakLive => {
                kernel.pressure.as_ref().filter(|pressure| pressure.exact).map(|pressure| u64::from(pressure.gpr.peak))
            }
            Metric::Instructions => kernel.instructions.count(),
            Metric::CodeBytes => Some(resources.code_bytes),
            Metric::WarpsPerSm => kernel.occupancy.as_ref().and_then(|found| found.warps_per_sm).map(u64::from),
            Metric::LoopCycles => hottest_cycles(kernel),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Metric, String> {
        Metric::ALL.into_iter().find(|metric| metric.name() == text).ok_or_else(|| {
            let known: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
            format!("'{text}' is not a metric: expected one of {}", known.join(", "))
        })
    }
}

/// One value, or none, for every metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures([Option<u64>; Metric::ALL.len()]);

impl Figures {
    /// The figures of a kernel.
    pub fn of(kernel: &Kernel) -> Self {
        let mut figures = Figures::default();
        for metric in Metric::ALL {
            figures.set(metric, metric.of(kernel));
        }
        figures
    }

    /// One of them.
    pub fn get(&self, metric: Metric) -> Option<u64> {
        self.0[metric as usize]
    }

    /// Changes one of them.
    pub fn set(&mut self, metric: Metric, value: Option<u64>) {
        self.0[metric as usize] = value;
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, Option<u64>)> + '_ {
        Metric::ALL.into_iter().map(|metric| (metric, self.get(metric)))
    }
}

/// As an object: each metric by name, null where it is not known.
impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Metric::ALL.len()))?;
        for (metric, value) in self.iter() {
            map.serialize_entry(metric.name(), &value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Figures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut figures = Figures::default();
        for (name, value) in BTreeMap::<String, Option<u64>>::deserialize(deserializer)? {
            figures.set(name.parse().map_err(D::Error::custom)?, value);
        }
        Ok(figures)
    }
}
