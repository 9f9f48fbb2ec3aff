//! mbarriers whose count the groups of threads that arrive at them do not make up.
//!
//! Threads that come to an arrival equally often arrive there as one: 128 at a time, or one lane of each of four warps. Whatever the order, a
//! phase that ends between two of them leaves the rest to the next one, and the one after that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::Line;
use crate::simt::{ThreadSet, Uniformity, Value, Variation, Warps};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::mbarrier_checks::{Group, Objects, each_arrives, is_waited_for};
use crate::sync::rules::mbarriers::{Act, MbarrierSite};

/// Objects that are looked at.
const MAX_OBJECTS: usize = 512;
/// Sets of threads that are.
const MAX_SETS: usize = 64;

/// Counts that are no multiple of what arrives at once. `all` has the instructions too that nobody runs.
pub(super) fn check(warps: &Warps<'_>, objects: &Objects<'_>, all: &[MbarrierSite]) -> Vec<Finding> {
    let mut units = Units { warps, objects, all, together: BTreeMap::new() };
    let mut checks: Vec<Finding> = Vec::new();
    let mut told: BTreeSet<Line> = BTreeSet::new();
    let inits = objects.sites.iter().filter(|site| site.act == Act::Init);
    let of = |init: &MbarrierSite| Some((init.variable?, init.places.clone()?, init.argument?));
    let all = inits.filter_map(|init| Some((init, of(init)?)));
    let each = all.flat_map(|(init, (variable, places, count))| {
        places.into_iter().map(move |place| (init, variable, place, count))
    });
    for (init, variable, place, count) in each.take(MAX_OBJECTS) {
        let group: Group = (variable, Some(Arc::from([place])));
        let Some(unit) = units.of(&group, place).filter(|unit| count % unit != 0) else { continue };
        if told.insert(init.line) {
            let name = init.object(warps).unwrap_or_default();
            checks.push(Finding {
                code: "PI310",
                fatal: true,
                confidence: Confidence::Likely,
                line: init.line,
                message: format!("the mbarrier {name} counts to {count}, but {unit} threads at a time arrive at it"),
                reasoning: format!(
                    "all that arrive do so in groups of {unit} or a multiple of it, for nothing makes one of a group arrive more often than \
                     another: a phase would end between two of a group, and the rest would count for the next"
                ),
            });
        }
    }
    checks
}

struct Units<'w, 'a, 's> {
    warps: &'w Warps<'a>,
    objects: &'w Objects<'s>,
    all: &'w [MbarrierSite],
    together: BTreeMap<ThreadSet, Uniformity>,
}

impl Units<'_, '_, '_> {
    /// The number that arrivals at an object always are a multiple of; none where that says nothing.
    fn of(&mut self, group: &Group, place: i64) -> Option<u64> {
        // Where nobody comes to an arrival, the block may have another shape than is taken.
        let is_idle = |site: &MbarrierSite| {
            site.variable == Some(group.0) && site.may_be_at(place) && each_arrives(self.warps, site).is_some()
        };
        if !is_waited_for(self.objects, group) || self.all.iter().any(|site| site.threads == Some(0) && is_idle(site)) {
            return None;
        }
        let mut unit = 0;
        for site in self.objects.of(group) {
            let Some(each) = each_arrives(self.warps, site) else { continue };
            let arriving = self.arriving(site, place)?.checked_mul(each?)?;
            unit = greatest_common_divisor(unit, arriving);
        }
        Some(unit).filter(|unit| *unit > 1)
    }

    /// How many threads arrive at a place whenever one of them does.
    fn arriving(&mut self, site: &MbarrierSite, place: i64) -> Option<u64> {
        let (warps, address) = (self.warps, site.address(self.warps)?);
        site.threads?;
        // Lanes may have a block of the cluster each.
        let rank = || warps.values.rank(&warps.graph, site.index, address);
        let is_apart = || rank().is_some_and(|rank| rank.variation() != Variation::Block);
        if site.argument.is_none() && site.most.is_some() || site.remote && is_apart() {
            return None;
        }
        let here = warps.at(site.index);
        if self.together.len() >= MAX_SETS && !self.together.contains_key(&here) {
            return None;
        }
        let together = self.together.entry(here).or_insert_with(|| Uniformity::of_threads(warps, here));
        if !together.equally(warps, site.index) {
            return None;
        }
        let at = match warps.values.operand(&warps.graph, site.index, address) {
            Value::Addresses { offsets, .. } => here.holding(&offsets, |offset| *offset == place),
            _ if site.places.as_ref()?.len() == 1 || together.agrees_on(warps, site.index, address) => here,
            _ => return None,
        };
        Some(at.len().into())
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
