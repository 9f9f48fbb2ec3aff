//! Whether the threads that come to a named barrier are as many as its sites count to.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::work;
use crate::ptx::BarrierAction;
use crate::simt::{Paths, ThreadSet, Uniformity, Warps, passing};
use crate::sync::rules::barriers::BarrierSite;
use crate::sync::rules::finding::{Confidence, Finding};

/// Looks at barriers one by one; how warps move together is told once for each set of them.
pub struct Counts<'w, 'a> {
    warps: &'w Warps<'a>,
    exact: bool,
    together: BTreeMap<ThreadSet, Uniformity>,
    ways: Paths<'w, 'a>,
}

fn all_of<'s>(sites: impl IntoIterator<Item = &'s BarrierSite>) -> ThreadSet {
    let sets = sites.into_iter().filter_map(|site| site.threads);
    sets.fold(ThreadSet::EMPTY, |all, set| all.union(&set)).whole_warps()
}

fn arrives(site: &BarrierSite) -> bool {
    site.action == BarrierAction::Arrive
}

/// Threads that a round can have when everybody comes once: those who wait, and those who arrive.
fn round(sites: &[&BarrierSite]) -> u32 {
    let of = |arrive: bool| all_of(sites.iter().copied().filter(|site| arrives(site) == arrive));
    of(true).len() + of(false).len()
}

/// Whether warps meet others that have as many sites as they have, so that each site has a partner among those of the others.
fn is_paired(sites: &[&BarrierSite]) -> bool {
    let mut groups: BTreeMap<ThreadSet, usize> = BTreeMap::new();
    for threads in sites.iter().filter_map(|site| site.threads) {
        *groups.entry(threads.whole_warps()).or_default() += 1;
    }
    let threads: u32 = groups.keys().map(ThreadSet::len).sum();
    let mut numbers = groups.values();
    let first = numbers.next();
    groups.len() > 1 && threads == all_of(sites.iter().copied()).len() && numbers.all(|number| Some(number) == first)
}

/// One site of a barrier where all others agree on a count that the threads make up, and each of them needs another one: some arrive for
/// others, sites are in pairs, or nobody else makes a round alone as those do who come here.
fn odd_one(id: u32, sites: &[&BarrierSite]) -> Option<Finding> {
    if sites.len() < 3 {
        return None;
    }
    let counts: Vec<u32> = sites.iter().filter_map(|site| site.count).collect();
    let of = |wanted: u32| {
        work::spend_on(counts.len());
        counts.iter().filter(|count| **count == wanted).count()
    };
    let site = sites.iter().find(|site| site.count.is_some_and(|count| of(count) == 1))?;
    let usual = counts.iter().copied().find(|count| Some(*count) != site.count)?;
    let made_up = usual == round(sites) || usual == all_of(sites.iter().copied()).len();
    let come = |site: &BarrierSite| all_of([site]).len();
    let alone = || {
        let mut others = sites.iter().filter(|other| other.index != site.index);
        site.count == Some(come(site)) && others.all(|other| come(other) < usual && !arrives(other))
    };
    // Who arrives only ahead of waiting is no other one.
    let apart = |arrival: &BarrierSite| !all_of([arrival]).within(&all_of([*site]));
    let for_others = sites.iter().any(|site| arrives(site) && (apart(site) || site.count != Some(usual)));
    let needs_another = for_others || is_paired(sites) || alone();
    (of(usual) == sites.len() - 1 && made_up && needs_another).then(|| {
        never_full(
            site,
            format!("barrier {id} counts to {} here, and to {usual} everywhere else", site.count.unwrap_or_default()),
            format!("the warps that come to it are {usual} threads; who waits together must give one count"),
        )
    })
}

/// An arrival with a count that nobody waits with.
fn for_nobody(id: u32, sites: &[&BarrierSite]) -> Option<Finding> {
    let waited: BTreeSet<Option<u32>> = sites.iter().filter(|site| !arrives(site)).map(|site| site.count).collect();
    let site = sites.iter().find(|site| arrives(site) && !waited.is_empty() && !waited.contains(&site.count))?;
    let counts: Vec<String> = waited.into_iter().flatten().map(|count| count.to_string()).collect();
    Some(never_full(
        site,
        format!("arrives at barrier {id} for {} threads, but nobody waits for as many", site.count.unwrap_or_default()),
        format!("those who wait count to {}; who arrives for them must give their count", counts.join(", ")),
    ))
}

/// Where one arrives and one waits, with counts that differ and nothing to tell which is meant, the other one of the two.
fn other_half(id: u32, sites: &[&BarrierSite], told: &Finding) -> Option<Finding> {
    let ([arrival], [wait]) = (
        &sites.iter().filter(|site| arrives(site)).collect::<Vec<_>>()[..],
        &sites.iter().filter(|site| !arrives(site)).collect::<Vec<_>>()[..],
    ) else {
        return None;
    };
    let (counted, waited) = (arrival.count?, wait.count?);
    let come = |site: &BarrierSite| all_of([site]).len();
    // Those who come make up one of the counts, or both, or neither.
    let made_up = |count: u32| count == come(arrival) + come(wait);
    let is_open = told.line == arrival.line && told.code == "PI203" && made_up(counted) == made_up(waited);
    (is_open && counted != waited).then(|| {
        never_full(
            wait,
            format!("barrier {id} waits for {waited} threads, but those who arrive for it count to {counted}"),
            format!("one of the two is wrong, this or the arrival at line {}", arrival.line.0),
        )
    })
}

/// A barrier that waits for threads that do not come, likely so.
fn never_full(site: &BarrierSite, message: String, reasoning: String) -> Finding {
    Finding { code: "PI203", fatal: true, confidence: Confidence::Likely, line: site.line, message, reasoning }
}

/// Who gets where before those who wait at an instruction have passed it.
struct Early {
    blocks: Vec<ThreadSet>,
    closed: u32,
    waiting: ThreadSet,
}

impl Early {
    fn at(&self, warps: &Warps<'_>, passed: usize, index: usize) -> ThreadSet {
        let block = warps.graph.sites.get(index).map_or(self.closed, |site| site.block);
        let here = self.blocks.get(block as usize).copied().unwrap_or(ThreadSet::EMPTY);
        if block == self.closed && index > passed { here.without(&self.waiting) } else { here }
    }
}

impl<'w, 'a> Counts<'w, 'a> {
    /// `exact` says that the block cannot have another size.
    pub fn new(warps: &'w Warps<'a>, exact: bool) -> Counts<'w, 'a> {
        Counts { warps, exact, together: BTreeMap::new(), ways: Paths::new(warps) }
    }

    /// Checks one barrier: all its sites.
    pub fn check(&mut self, id: u32, sites: &[BarrierSite], checks: &mut Vec<Finding>) {
        if sites.iter().any(|site| site.threads.is_none()) {
            return;
        }
        let sites: Vec<&BarrierSite> =
            sites.iter().filter(|site| site.threads.is_some_and(|threads| !threads.is_empty())).collect();
        let few = self.too_few(id, &sites);
        let known = sites.iter().all(|site| site.count.is_some());
        // What is only possible gives way to what the counts of the other sites tell.
        let unsure = few.as_ref().is_none_or(|check| check.confidence == Confidence::Possible);
        let found = match few {
            few if !unsure || !known => few,
            few => {
                // Where many agree, the one that does not is wrong, whatever sums its count may happen to be.
                let odd = || odd_one(id, &sites).filter(|_| sites.len() > 3);
                let told = self
                    .own_arrivals(id, &sites)
                    .or_else(odd)
                    .or_else(|| self.apart(id, &sites))
                    .or_else(|| odd_one(id, &sites));
                told.or_else(|| self.first_round(id, &sites)).or_else(|| for_nobody(id, &sites)).or(few)
            }
        };
        let told = found.as_ref().is_some_and(|check| check.confidence > Confidence::Possible);
        checks.extend(found.as_ref().and_then(|check| other_half(id, &sites, check)));
        checks.extend(found);
        if known && !told {
            self.too_many(id, &sites, checks);
        }
    }

    /// Whether no warp can count twice: none both arrives and waits, and none arrives in a loop.
    fn once(&self, sites: &[&BarrierSite]) -> bool {
        let of = |arrive: bool| all_of(sites.iter().copied().filter(move |site| arrives(site) == arrive));
        let loops = |site: &&&BarrierSite| arrives(site) && self.warps.graph.is_in_a_loop(site.index);
        of(true).intersection(&of(false)).is_empty() && !sites.iter().any(|site| loops(&site))
    }

    /// A count that all who come to any site cannot make up.
    fn too_few(&self, id: u32, sites: &[&BarrierSite]) -> Option<Finding> {
        let able = all_of(sites.iter().copied());
        let over = |site: &&&BarrierSite| {
            !arrives(site) && site.count.is_some_and(|count| count % 32 == 0 && able.len() < count)
        };
        let site = sites.iter().find(over)?;
        let count = site.count?;
        let only_sync = !sites.iter().any(|site| arrives(site));
        // Where the others agree on a count that those who come do make up, this one is alone.
        let others = sites.iter().filter(|other| other.index != site.index);
        let odd = sites.len() > 1 && others.clone().all(|other| other.count == Some(round(sites)));
        Some(Finding {
            code: "PI203",
            fatal: true,
            confidence: match (only_sync || self.once(sites), self.exact) {
                (true, true) => Confidence::Certain,
                (true, false) => Confidence::Likely,
                (false, _) if odd => Confidence::Likely,
                // A warp that arrives and then waits, or arrives again, counts twice.
                (false, _) => Confidence::Possible,
            },
            line: site.line,
            message: format!("barrier {id} waits for {count} threads, but only {} can get to it", able.len()),
            reasoning: format!(
                "of a block of {} threads, warps {:?} reach its sites; branches lead the others elsewhere",
                self.warps.threads.unwrap_or(0),
                able.warps()
            ),
        })
    }

    /// Sites of one barrier whose counts differ, so that none of them can complete with the others.
    fn apart(&self, id: u32, sites: &[&BarrierSite]) -> Option<Finding> {
        let counts: BTreeSet<u32> = sites.iter().filter_map(|site| site.count).collect();
        if counts.len() < 2 {
            return None;
        }
        let with = |count: u32| -> Vec<&BarrierSite> {
            sites.iter().copied().filter(|site| site.count == Some(count)).collect()
        };
        let lacks = |count: &u32| {
            let mates = with(*count);
            round(&mates) < *count && count.is_multiple_of(32)
        };
        let lacking: Vec<u32> = counts.iter().copied().filter(lacks).collect();
        // One of two halves that need each other: the one whose count is not their sum.
        let whole = {
            let halves = sites.iter().copied().filter(|site| site.count.is_some_and(|count| lacking.contains(&count)));
            round(&halves.collect::<Vec<_>>())
        };
        let (blamed, by_sum) = match lacking.as_slice() {
            [] => return None,
            [one] => (*one, false),
            several => {
                let wrong: Vec<u32> = several.iter().copied().filter(|count| *count != whole).collect();
                match wrong.as_slice() {
                    [one] if several.len() == 2 => (*one, true),
                    _ => {
                        let fewest = several.iter().copied().min_by_key(|count| with(*count).len());
                        (fewest.unwrap_or_default(), false)
                    }
                }
            }
        };
        let mates = with(blamed);
        // One half whose count no other has: whoever would make it full counts to something else.
        let arriving = mates.iter().all(|site| arrives(site));
        let one_kind = arriving || !mates.iter().any(|site| arrives(site));
        let come = all_of(mates.iter().copied());
        let partner = sites.iter().find(|site| {
            let there = site.threads.unwrap_or(ThreadSet::EMPTY).whole_warps();
            let apart = arrives(site) != arriving || there.intersection(&come).is_empty();
            apart && site.count != Some(blamed) && there.len() + round(&mates) == blamed
        });
        if let (Some(site), true) = (partner, one_kind && !by_sum) {
            let they = if arriving { "arrive" } else { "wait" };
            let here = if arrives(site) { "arrive" } else { "wait" };
            return Some(never_full(
                site,
                format!(
                    "barrier {id} counts to {} here, but those who {they} at it count to {blamed}",
                    site.count.unwrap_or_default()
                ),
                format!(
                    "{} threads {they} and {} {here} here: together {blamed}",
                    round(&mates),
                    blamed - round(&mates)
                ),
            ));
        }
        let site = mates.iter().find(|site| !arrives(site)).or(mates.first())?;
        let others: Vec<String> = counts.iter().filter(|count| **count != blamed).map(u32::to_string).collect();
        Some(never_full(
            site,
            format!(
                "barrier {id} counts to {blamed} here, but only {} threads come to its sites with this count",
                round(&mates)
            ),
            format!("its other sites count to {}; who waits together must give one count", others.join(", ")),
        ))
    }

    /// Where whoever arrives for a round also waits for it, and nobody else comes: arrivals since the round before, and those who wait.
    fn own_arrivals(&self, id: u32, sites: &[&BarrierSite]) -> Option<Finding> {
        let here = |site: &BarrierSite| site.threads.unwrap_or(ThreadSet::EMPTY).whole_warps();
        let of = |index: usize| sites.iter().copied().inspect(|_| work::spend(1)).find(|site| site.index == index);
        let all: BTreeSet<usize> = sites.iter().map(|site| site.index).collect();
        for wait in sites.iter().filter(|site| !arrives(site)) {
            let (come, Some(count)) = (here(wait), wait.count) else { continue };
            if !sites.iter().all(|site| here(site).within(&come)) || !sites.iter().any(|site| arrives(site)) {
                continue;
            }
            let before = self.ways.first(wait.index, true, &[&all]);
            let arrivals: Vec<&BarrierSite> = before.into_iter().filter_map(of).filter(|site| arrives(site)).collect();
            let message = |site: &BarrierSite, all: u32| {
                format!(
                    "barrier {id} counts to {} here, but {all} threads make its round",
                    site.count.unwrap_or_default()
                )
            };
            match arrivals.as_slice() {
                [] if count > come.len() => {
                    let reasoning =
                        "whoever else arrives is among those who wait here, and has not arrived since the round before";
                    return Some(never_full(wait, message(wait, come.len()), reasoning.to_owned()));
                }
                // Some of those who wait arrive just before it.
                [arrival] if arrival.count != wait.count => {
                    let twice = here(arrival).len();
                    let total = come.len() + twice;
                    let wrong = [*arrival, *wait].into_iter().filter(|site| site.count != Some(total));
                    let [site] = wrong.collect::<Vec<_>>()[..] else { continue };
                    let reasoning = format!(
                        "{} threads wait at line {}, and {twice} of them have arrived at line {}: together {total}",
                        come.len(),
                        wait.line.0,
                        arrival.line.0
                    );
                    return Some(never_full(site, message(site, total), reasoning));
                }
                _ => {}
            }
        }
        None
    }

    /// A count that those who can come before anybody has passed do not make up: others arrive only once they have.
    fn first_round(&self, id: u32, sites: &[&BarrierSite]) -> Option<Finding> {
        for site in sites.iter().filter(|site| !arrives(site)) {
            let (Some(count), Some(here)) = (site.count, site.threads) else { continue };
            let guarded = self.warps.graph.sites.get(site.index).is_none_or(|site| site.guard.is_some());
            let mates = || sites.iter().filter(|other| other.index != site.index && other.count == site.count);
            if count % 32 != 0 || here.whole_warps().len() >= count || guarded {
                continue;
            }
            let early = self.early(site.index, here.whole_warps());
            let (mut waiting, mut arriving, mut again) = (here, 0, false);
            for other in mates() {
                let there = early.at(self.warps, site.index, other.index).whole_warps();
                let there = there.intersection(&other.threads.unwrap_or(ThreadSet::EMPTY).whole_warps());
                again |= arrives(other) && !there.is_empty() && self.warps.graph.is_in_a_loop(other.index);
                match arrives(other) {
                    true => arriving += there.len(),
                    false => waiting = waiting.union(&there),
                }
            }
            let come = waiting.whole_warps().len().saturating_add(arriving);
            if come < count && !again {
                return Some(never_full(
                    site,
                    format!("barrier {id} waits for {count} threads, but {come} come before anybody has passed it"),
                    "its other sites with this count are only reached by way of this one".to_owned(),
                ));
            }
        }
        None
    }

    /// Who gets where before some have passed an instruction. To others it may be another barrier.
    fn early(&self, index: usize, waiting: ThreadSet) -> Early {
        let graph = &self.warps.graph;
        let closed = graph.sites.get(index).map_or(0, |site| site.block);
        work::spend_on(graph.blocks.len() / 16);
        let mut blocks = vec![ThreadSet::EMPTY; graph.blocks.len()];
        let mut open = vec![0u32];
        if let Some(first) = blocks.first_mut() {
            *first = self.warps.reach.block(0);
        }
        while let Some(at) = open.pop() {
            work::spend(1);
            let Some(block) = graph.blocks.get(at as usize) else { continue };
            let here = blocks.get(at as usize).copied().unwrap_or(ThreadSet::EMPTY);
            let here = if at == closed { here.without(&waiting) } else { here };
            for edge in &block.successors {
                let going = passing(graph, &self.warps.values, block, edge, here);
                if let Some(there) = blocks.get_mut(edge.to as usize) {
                    let met = there.union(&going);
                    if met != *there {
                        *there = met;
                        open.push(edge.to);
                    }
                }
            }
        }
        Early { blocks, closed, waiting }
    }

    /// Warps of a site that come to it as often as each other: more than it counts to.
    fn too_many(&mut self, id: u32, sites: &[&BarrierSite], checks: &mut Vec<Finding>) {
        for site in sites {
            let (Some(count), Some(here)) = (site.count, site.threads) else { continue };
            let come = here.whole_warps();
            // Of those that take turns with several barriers only some may come to this one.
            if site.in_turns || arrives(site) || count == 0 || count % 32 != 0 || come.len() <= count {
                continue;
            }
            work::spend_on(sites.len());
            let mates = || sites.iter().filter(|other| other.count == site.count);
            // Others may make the last round full.
            if mates().any(|other| arrives(other) || other.threads.is_some_and(|there| !there.within(&come))) {
                continue;
            }
            let peers = || sites.iter().filter(|other| other.index != site.index && other.threads == site.threads);
            let alone = mates().count() == 1 && peers().count() > 0;
            let usual = peers().next().and_then(|other| other.count).unwrap_or(count);
            let alone = alone && peers().all(|other| other.count == Some(usual) && !arrives(other));
            let left = come.len() % count;
            // Or other sites count to just these, or to these and those who meet them there.
            let counts_them = |other: &&BarrierSite| {
                work::spend_on(sites.len());
                let met: Vec<&BarrierSite> = sites.iter().copied().filter(|mate| mate.count == other.count).collect();
                other.count == Some(come.len()) || other.count == Some(round(&met))
            };
            let is_group = mates().count() == 1 && peers().copied().any(|other| counts_them(&other)) && left != 0;
            // Parts of these warps may take turns, as many at a time as the other sites count to.
            let turns = peers().count() > 0 && usual > 0 && come.len().is_multiple_of(usual) && left != 0;
            let all = come.len();
            let reasoning = if is_group {
                format!("other sites of this barrier count all of the same {all} threads; {left} are left over here")
            } else if alone && (usual == all || turns) {
                format!(
                    "the same {all} threads come to {} other sites of this barrier, which count to {usual}",
                    peers().count()
                )
            } else if left != 0 && self.equally(site, come) {
                format!(
                    "nothing that differs from warp to warp keeps any of these {} warps away; {left} threads are left to wait \
                     for a round that nobody completes",
                    all / 32
                )
            } else if left != 0 && sites.len() == 1 && all - count == 32 {
                format!("this is its only site, and of the {} warps that can come all but one are counted", all / 32)
            } else {
                continue;
            };
            checks.push(Finding {
                code: "PI204",
                fatal: true,
                confidence: Confidence::Likely,
                line: site.line,
                message: format!("barrier {id} counts to {count} here, but {all} threads come to it"),
                reasoning,
            });
        }
    }

    fn equally(&mut self, site: &BarrierSite, come: ThreadSet) -> bool {
        let warps = self.warps;
        self.together.entry(come).or_insert_with(|| Uniformity::of(warps, come)).at(warps, site.index)
    }
}
