//! How many arrivals one phase of an mbarrier gets, where whoever arrives again has waited for something in between.
//!
//! That is how pipelines work, but nothing makes them: a thread may arrive twice in a phase with a wait for another object between. So a
//! count is doubted only where the counts of all other objects of the kernel agree with what is found for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::simt::{Paths, Warps};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::mbarrier_checks::{Group, Objects, each_arrives, for_one_block, is_waited_for};
use crate::sync::rules::mbarriers::{Act, MbarrierSite, Place};

/// Objects, and arrivals at one, that are looked at.
const MAX_OBJECTS: usize = 512;
const MAX_ARRIVALS: usize = 64;
/// Objects, at least, that agree for one that does not to be doubted.
const MIN_AGREEING: usize = 2;

/// Arrivals that one phase of an object can get.
#[derive(Clone, Copy)]
struct Arrivals {
    most: u64,
    /// Whether there may be fewer: other blocks of the cluster need not have a part in them, nor arrivals whose index is not known.
    or_fewer: bool,
}

/// An object with its count.
struct Object<'a> {
    init: &'a MbarrierSite,
    count: u64,
    arrivals: Arrivals,
}

impl Object<'_> {
    fn is_short(&self) -> bool {
        self.count > self.arrivals.most
    }

    fn agrees(&self) -> bool {
        self.count == self.arrivals.most || self.arrivals.or_fewer && !self.is_short()
    }
}

/// The object whose count alone does not agree with its arrivals.
pub(super) fn check(warps: &Warps<'_>, objects: &Objects<'_>) -> Option<Finding> {
    let rounds = Rounds::new(warps, objects);
    let mut known: BTreeMap<Group, Option<Arrivals>> = BTreeMap::new();
    let mut all: Vec<Object<'_>> = Vec::new();
    let inits = objects.sites.iter().filter(|site| site.act == Act::Init);
    if inits.filter_map(|init| init.places.as_ref()).map(Vec::len).sum::<usize>() > MAX_OBJECTS {
        return None;
    }
    for init in objects.sites.iter().filter(|site| site.act == Act::Init) {
        let (Some(variable), Some(places), Some(count)) = (init.variable, &init.places, init.argument) else {
            continue;
        };
        for place in places {
            let group: Group = (variable, Some(Arc::from([*place])));
            let arrivals = *known.entry(group.clone()).or_insert_with(|| rounds.arrivals(&group));
            all.extend(arrivals.map(|arrivals| Object { init, count, arrivals }));
        }
    }
    let lines = |wanted: &dyn Fn(&Object<'_>) -> bool| -> BTreeSet<usize> {
        all.iter().filter(|object| wanted(object)).map(|object| object.init.index).collect()
    };
    let (short, doubted) = (lines(&|object| object.is_short()), lines(&|object| !object.agrees()));
    let index = match (short.len(), doubted.len()) {
        (1, _) => short.first()?,
        (0, 1) => doubted.first()?,
        _ => return None,
    };
    let agreeing = all.iter().filter(|object| object.count == object.arrivals.most).count();
    let object = all.iter().find(|object| object.init.index == *index && !object.agrees())?;
    let name = object.init.object(warps).unwrap_or_default();
    let (count, arrivals) = (object.count, object.arrivals.most);
    let (code, message) = match object.is_short() {
        true => {
            ("PI305", format!("the mbarrier {name} waits for {count} arrivals, but only {arrivals} come in one phase"))
        }
        false => ("PI310", format!("the mbarrier {name} counts to {count}, but {arrivals} arrive in one phase")),
    };
    // More may come than do: two instructions that follow one another need not both run in one phase.
    let confidence = if object.is_short() { Confidence::Likely } else { Confidence::Possible };
    (agreeing >= MIN_AGREEING).then(|| Finding {
        code,
        fatal: true,
        confidence,
        line: object.init.line,
        message,
        reasoning: format!(
            "whoever arrives at it waits before arriving again, which makes {arrivals}; {agreeing} other mbarriers of the kernel count \
             to just what is found for them in this way"
        ),
    })
}

struct Rounds<'w, 'a, 's> {
    warps: &'w Warps<'a>,
    objects: &'w Objects<'s>,
    ways: Paths<'w, 'a>,
    waits: BTreeSet<usize>,
}

impl<'w, 'a, 's> Rounds<'w, 'a, 's> {
    fn new(warps: &'w Warps<'a>, objects: &'w Objects<'s>) -> Self {
        let waits = objects.sites.iter().filter(|site| site.act == Act::Wait).map(|site| site.index).collect();
        Rounds { warps, objects, ways: Paths::new(warps), waits }
    }

    /// The arrivals that one phase of an object can get; none where that cannot be told.
    fn arrivals(&self, group: &Group) -> Option<Arrivals> {
        if !is_waited_for(self.objects, group) {
            return None;
        }
        // By arrival: how many a thread makes there.
        let mut weights: BTreeMap<usize, u64> = BTreeMap::new();
        let mut or_fewer = false;
        for site in self.objects.of(group) {
            let Some(each) = each_arrives(self.warps, site) else { continue };
            if !self.places(site)?.iter().any(|place| group.1.as_ref().is_some_and(|own| own.contains(place))) {
                continue;
            }
            or_fewer |= site.remote || site.places.is_none();
            weights.insert(site.index, each?.checked_mul(self.blocks(site)?)?);
        }
        if weights.len() > MAX_ARRIVALS {
            return None;
        }
        let arrivals: BTreeSet<usize> = weights.keys().copied().collect();
        let next = |from: usize| -> Vec<usize> {
            let met = self.ways.first(from, false, &[&arrivals, &self.waits]);
            met.into_iter().filter(|index| weights.contains_key(index)).collect()
        };
        let next: BTreeMap<usize, Vec<usize>> = weights.keys().map(|from| (*from, next(*from))).collect();
        // Threads that can run the same of them.
        let mut by_sites: BTreeMap<Vec<usize>, u64> = BTreeMap::new();
        let who: Vec<_> = weights.keys().map(|index| (*index, self.warps.at(*index))).collect();
        for thread in 0..self.warps.threads? {
            let runs = who.iter().filter(|(_, threads)| threads.has(thread)).map(|(index, _)| *index);
            *by_sites.entry(runs.collect()).or_default() += 1;
        }
        let mut all: u64 = 0;
        for (sites, threads) in by_sites.iter().filter(|(sites, _)| !sites.is_empty()) {
            all = all.checked_add(longest(sites, &weights, &next)?.checked_mul(*threads)?)?;
        }
        Some(Arrivals { most: all, or_fewer }).filter(|_| all > 0)
    }

    /// The places that an instruction can have. Where its index is not known, those of others with an index into an array that starts at the
    /// same place.
    fn places(&self, site: &'s MbarrierSite) -> Option<&'s [i64]> {
        let Place::Element(base) = site.place else { return site.places.as_deref() };
        let alike = |other: &&MbarrierSite| other.act != Act::Init && other.variable == site.variable;
        let arrays = || self.objects.sites.iter().filter(alike).filter_map(|other| other.places.as_deref());
        let starts_there = |places: &&[i64]| places.len() > 1 && places.first() == Some(&base);
        site.places.as_deref().or_else(|| arrays().filter(starts_there).max_by_key(|places| places.len()))
    }

    /// How many blocks of a cluster a thread's arrival stands for: the same thread of each arrives.
    fn blocks(&self, site: &MbarrierSite) -> Option<u64> {
        if !site.remote {
            return Some(1);
        }
        let blocks = self.warps.cluster.map(u64::from)?;
        (for_one_block(self.warps, site) == site.threads.map(u64::from)).then_some(blocks)
    }
}

/// The most arrivals on a way from any of some that leads through no wait; none where it leads on and on.
fn longest(sites: &[usize], weights: &BTreeMap<usize, u64>, next: &BTreeMap<usize, Vec<usize>>) -> Option<u64> {
    let mut from: BTreeMap<usize, u64> = sites.iter().map(|site| (*site, 0)).collect();
    // A way that comes to none twice is no longer than this.
    for _ in 0..=sites.len() {
        let mut changed = false;
        for site in sites {
            let on = next.get(site)?.iter().filter_map(|to| from.get(to)).max().copied().unwrap_or(0);
            let most = weights.get(site)?.checked_add(on)?;
            changed |= from.insert(*site, most) != Some(most);
        }
        if !changed {
            return from.values().max().copied();
        }
    }
    None
}
