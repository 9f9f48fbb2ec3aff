//! Copies that no expect_tx announces, though others have one.

use std::collections::BTreeSet;

use crate::base::work;
use crate::simt::{Block, Edge, Paths, Warps};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::mbarrier_batches::{Around, Batches};
use crate::sync::rules::mbarrier_checks::Objects;
use crate::sync::rules::mbarriers::{Act, MbarrierSite, Place};

fn announces(site: &MbarrierSite) -> bool {
    matches!(site.act, Act::ArriveExpect | Act::Expect | Act::Other)
}

/// Whether two instructions have the same object, known or not.
pub(super) fn one_object(a: &MbarrierSite, b: &MbarrierSite) -> bool {
    work::spend(1);
    let known = matches!(a.place, Place::At(_)) && a.place == b.place && a.variable == b.variable;
    known || a.identity.is_some() && a.identity == b.identity && a.variable == b.variable
}

/// The first copy with an announcement somewhere, but none for it: whoever copies arrives without one, or there is none between the
/// waits before and after it.
pub(super) fn check(warps: &Warps<'_>, objects: &Objects<'_>) -> Option<Finding> {
    if !objects.sites.iter().any(|site| site.act == Act::Complete) {
        return None;
    }
    let waits = objects.sites.iter().filter(|site| site.act == Act::Wait).map(|site| site.index).collect();
    let walk = Walk::new(warps, waits);
    for (site, group) in objects.sites.iter().zip(&objects.groups) {
        let Some(group) = group.as_ref().filter(|_| site.act == Act::Complete) else { continue };
        let own: BTreeSet<usize> = objects.of(group).filter(|site| announces(site)).map(|site| site.index).collect();
        if own.is_empty() {
            continue;
        }
        if let Some(rank) = left_out(warps, objects, site, &own) {
            let what = format!(" of every block of the cluster, no expect_tx announces them to block {rank}");
            let why = "every expect_tx on the object is for another block of the cluster, whose number mapa says; this block is \
                       sent the bytes too";
            return Some(unannounced(warps, site, &what, why));
        }
        if walk.has_round_without(warps, site, &own) || walk.is_left_out(warps, objects, site, &own) {
            let why = "whoever copies here also runs every expect_tx on the object, but none between one wait and the next: of the \
                       phases that this copy is for none has its bytes announced";
            return Some(unannounced(warps, site, " that no expect_tx announces here", why));
        }
        // Waits for other objects may stand between an announcement and a copy; whoever arrives without bytes beside the copy does not
        // announce it before them.
        let waits = || objects.of(group).filter(|site| site.act == Act::Wait).map(|site| site.index).collect();
        let bare = objects.of(group).filter(|other| other.act == Act::Arrive && !other.remote);
        let beside = walk.meets(site.index, &bare.map(|other| other.index).collect());
        if !beside && walk.within(waits()).meets(site.index, &own) {
            continue;
        }
        let announced = |other: &MbarrierSite| announces(other) && other.act != Act::Other && one_object(other, site);
        if objects.sites.iter().any(announced) {
            // The object has announcements: other copies on it must have theirs near for this one to lack its own.
            let peers = objects.sites.iter().filter(|other| other.act == Act::Complete && one_object(other, site));
            let mut peers = peers.filter(|other| other.index != site.index);
            let exact = matches!(site.place, Place::At(_));
            if !exact || walk.meets(site.index, &own) {
                continue;
            }
            // Or whoever copies arrives there without bytes.
            let bare = objects.sites.iter().filter(|other| other.act == Act::Arrive && !other.remote);
            let bare = bare.filter(|other| one_object(other, site)).map(|other| other.index).collect();
            if !peers.any(|other| walk.meets(other.index, &own)) && !walk.meets(site.index, &bare) {
                continue;
            }
        } else {
            // Somebody else may announce for those who copy.
            let copiers = warps.warps_at(site.index);
            let same = |index: &usize| !warps.at(*index).intersection(&copiers).is_empty();
            let alone = arrives_bare(warps, objects, site);
            if !alone && (!own.iter().all(same) || walk.meets(site.index, &own)) {
                continue;
            }
        }
        let why = "other copies have an expect_tx between the waits around them, this one has none";
        return Some(unannounced(warps, site, " that no expect_tx announces here", why));
    }
    if let Some(copy) = told_for_others_alone(warps, objects, &walk) {
        let why = "every expect_tx that may be for this object goes with other copies, and those have one each";
        return Some(unannounced(warps, copy, " that no expect_tx announces", why));
    }
    let batches = Batches::new(warps, objects);
    let around = Surroundings { objects, walk: &walk };
    if let Some(copy) = batches.without_its_own(&around) {
        let why = "the same is copied elsewhere with an expect_tx of its own, and every expect_tx that may be for this object goes with \
                   other copies";
        return Some(unannounced(warps, copy, " that no expect_tx announces", why));
    }
    let less = batches.told_of_less(warps, &around)?;
    let what = format!(", of which {} are announced", less.announced);
    let why = format!(
        "the same copies, or some of them, have {} bytes announced at line {}: a tensor map says how many bytes each moves, so that \
         these need more",
        less.others, less.other.0
    );
    Some(unannounced(warps, less.copy, &what, &why))
}

/// What stands around copies, as far as the ways there are open to who copies.
struct Surroundings<'o, 'a, 'w, 'g> {
    objects: &'o Objects<'a>,
    walk: &'o Walk<'w, 'g>,
}

impl Surroundings<'_, '_, '_, '_> {
    fn on_the_object(&self, copy: &MbarrierSite, is_wanted: &dyn Fn(&MbarrierSite) -> bool) -> BTreeSet<usize> {
        let group = copy.variable.map(|variable| (variable, copy.places.as_deref().map(Into::into)));
        let may_be = group.iter().flat_map(|group| self.objects.of(group));
        may_be.filter(|site| is_wanted(site)).map(|site| site.index).collect()
    }
}

impl Around for Surroundings<'_, '_, '_, '_> {
    fn told(&self, copy: &MbarrierSite) -> BTreeSet<usize> {
        self.on_the_object(copy, &announces)
    }

    fn met(&self, copy: &MbarrierSite, told: &BTreeSet<usize>) -> BTreeSet<usize> {
        let stops = [told, &self.walk.waits];
        let met = [true, false].into_iter().flat_map(|back| self.walk.ways.first(copy.index, back, &stops));
        met.filter(|index| told.contains(index)).collect()
    }

    fn before(&self, copy: &MbarrierSite, but: &BTreeSet<usize>) -> BTreeSet<usize> {
        let is_use = |site: &MbarrierSite| announces(site) || site.act == Act::Complete && !one_object(site, copy);
        let mut uses = self.on_the_object(copy, &is_use);
        uses.retain(|index| !but.contains(index));
        self.walk.ways.first(copy.index, true, &[&uses])
    }

    fn follows(&self, first: usize, second: usize) -> bool {
        self.walk.leads(first, &BTreeSet::from([second]), false)
    }
}

/// The first copy that has no announcement beside it, where those that may be for its object all go with other copies.
fn told_for_others_alone<'a>(
    warps: &Warps<'_>,
    objects: &Objects<'a>,
    walk: &Walk<'_, '_>,
) -> Option<&'a MbarrierSite> {
    let site = |site: &MbarrierSite| warps.graph.sites.get(site.index);
    let is_bulk = |copy: &MbarrierSite| {
        copy.act == Act::Complete && site(copy).is_some_and(|site| site.located.instruction.opcode().starts_with("cp."))
    };
    let beside = |a: &MbarrierSite, b: &MbarrierSite| site(a).map(|site| site.block) == site(b).map(|site| site.block);
    let copies: Vec<&MbarrierSite> = objects.sites.iter().filter(|site| is_bulk(site)).collect();
    let told: Vec<&MbarrierSite> = objects.sites.iter().filter(|site| announces(site)).collect();
    copies.iter().copied().find(|copy| {
        let (Some(variable), places) = (copy.variable, copy.places.as_deref().map(Into::into)) else { return false };
        let group = (variable, places);
        let copiers = warps.warps_at(copy.index);
        let own: Vec<&MbarrierSite> = objects.of(&group).filter(|site| announces(site)).collect();
        let rounds = walk.within(gates(objects, walk, &own));
        // In one block, or with no wait on some way between that starts a round.
        let together =
            |a: &MbarrierSite, b: &MbarrierSite| beside(a, b) || rounds.meets(b.index, &BTreeSet::from([a.index]));
        let goes_with = |site: &MbarrierSite, other: &MbarrierSite| {
            let is_other = || !together(other, copy) && together(site, other);
            one_object(site, other) && (!one_object(other, copy) || is_other())
        };
        let is_theirs = |site: &MbarrierSite| {
            let same_warps = !warps.at(site.index).intersection(&copiers).is_empty();
            site.act != Act::Other && same_warps && copies.iter().any(|other| goes_with(site, other))
        };
        let others = || copies.iter().filter(|other| !one_object(other, copy));
        !own.is_empty()
            && !own.iter().any(|site| together(site, copy))
            && own.iter().all(|site| is_theirs(site))
            && others().all(|other| told.iter().any(|site| one_object(site, other)))
    })
}

/// The waits that rounds of some announcements start with: those on objects that whoever announces waits for just before. Waits for others
/// may stand between an announcement and its copies.
fn gates(objects: &Objects<'_>, walk: &Walk<'_, '_>, announcements: &[&MbarrierSite]) -> BTreeSet<usize> {
    let is_wait = |index: usize| walk.waits.contains(&index);
    let first: BTreeSet<usize> =
        announcements.iter().flat_map(|site| walk.ways.first(site.index, true, &[&walk.waits])).collect();
    let first: Vec<&MbarrierSite> = objects.sites.iter().filter(|site| first.contains(&site.index)).collect();
    let overlaps = |a: &MbarrierSite, b: &MbarrierSite| {
        let both = a.places.as_ref().zip(b.places.as_ref());
        work::spend_on(both.map_or(1, |(a, b)| a.len() * b.len()));
        a.variable == b.variable && both.is_none_or(|(a, b)| a.iter().any(|place| b.contains(place)))
    };
    let is_gate = |site: &&MbarrierSite| is_wait(site.index) && first.iter().any(|gate| overlaps(site, gate));
    let gates: BTreeSet<usize> = objects.sites.iter().filter(is_gate).map(|site| site.index).collect();
    // A branch around one starts a round as well: to it, or to where it does not come next.
    let graph = &walk.warps.graph;
    work::spend_on(graph.blocks.len() + objects.sites.len());
    let waiting: BTreeSet<u32> =
        gates.iter().filter_map(|index| graph.sites.get(*index)).map(|site| site.block).collect();
    let leads = |block: &Block| block.successors.iter().any(|edge| waiting.contains(&edge.to));
    let passes_by = |edge: &Edge| {
        !waiting.contains(&edge.to) && graph.blocks.get(edge.to as usize).is_some_and(|block| !leads(block))
    };
    let decides = |block: &&Block| leads(block) && block.successors.iter().any(passes_by);
    let branches = graph.blocks.iter().filter(decides).map(|block| block.end.saturating_sub(1) as usize);
    branches.chain(gates.iter().copied()).collect()
}

fn unannounced(warps: &Warps<'_>, copy: &MbarrierSite, what: &str, why: &str) -> Finding {
    Finding {
        code: "PI303",
        fatal: true,
        confidence: Confidence::Likely,
        line: copy.line,
        message: format!("completes bytes on the mbarrier {}{what}", copy.object(warps).unwrap_or_default()),
        reasoning: why.to_owned(),
    }
}

/// The block of a cluster that a copy to all of them arrives at without bytes beside it, or that a cluster of the kernel's size has, where
/// every announcement is for another one.
fn left_out(warps: &Warps<'_>, objects: &Objects<'_>, copy: &MbarrierSite, own: &BTreeSet<usize>) -> Option<u64> {
    let graph = &warps.graph;
    let block_of = |index: usize| graph.sites.get(index).map(|site| site.block);
    let opcode = graph.sites.get(copy.index)?.located.instruction.opcode();
    if !opcode.contains("multicast::cluster::all") {
        return None;
    }
    let rank = |site: &MbarrierSite| warps.values.rank(graph, site.index, site.address(warps)?)?.constant();
    let mut told: BTreeSet<u64> = BTreeSet::new();
    for site in objects.sites.iter().filter(|site| own.contains(&site.index)) {
        told.insert(rank(site).filter(|_| one_object(site, copy))?);
    }
    if let Some(rank) = warps.cluster.and_then(|blocks| (0..u64::from(blocks)).find(|rank| !told.contains(rank))) {
        return Some(rank);
    }
    let mut beside = objects.sites.iter().filter(|site| {
        site.act == Act::Arrive && one_object(site, copy) && block_of(site.index) == block_of(copy.index)
    });
    beside.find_map(|site| rank(site).filter(|rank| !told.contains(rank)))
}

/// Walks from an instruction, up to the waits before and after it, on the ways that are open to those who run it.
struct Walk<'g, 'a> {
    warps: &'g Warps<'a>,
    ways: Paths<'g, 'a>,
    waits: BTreeSet<usize>,
}

impl<'g, 'a> Walk<'g, 'a> {
    fn new(warps: &'g Warps<'a>, waits: BTreeSet<usize>) -> Walk<'g, 'a> {
        Walk { warps, ways: Paths::new(warps), waits }
    }

    /// The same, up to other waits.
    fn within(&self, waits: BTreeSet<usize>) -> Walk<'g, 'a> {
        Walk { warps: self.warps, ways: self.ways.clone(), waits }
    }

    /// Whether a copy comes again, or for the first time, with a wait and no announcement between, though the same warps announce.
    fn has_round_without(&self, warps: &Warps<'_>, copy: &MbarrierSite, own: &BTreeSet<usize>) -> bool {
        let copiers = warps.warps_at(copy.index);
        let same = |index: &usize| !warps.at(*index).intersection(&copiers).is_empty();
        if !own.iter().all(same) {
            return false;
        }
        // Before the first one: nothing announces on any way there, nor on before somebody waits.
        let first =
            || !self.within(BTreeSet::new()).leads(copy.index, own, true) && !self.leads(copy.index, own, false);
        // After the last round of a loop that copies, its bytes may be announced all together.
        let after = || self.leads(copy.index, own, false);
        self.comes_again(copy.index, own) && self.loop_lacks(copy.index, own) && !after() || first()
    }

    /// Whether of several rounds in a row, as an unrolled loop has them, this one alone has no announcement between its waits, and that of
    /// the round before it is for copies of its own.
    fn is_left_out(
        &self,
        warps: &Warps<'_>,
        objects: &Objects<'_>,
        copy: &MbarrierSite,
        own: &BTreeSet<usize>,
    ) -> bool {
        let near = |from: usize| -> BTreeSet<usize> {
            let met = [true, false].into_iter().flat_map(|back| self.ways.first(from, back, &[own, &self.waits]));
            met.filter(|index| own.contains(index)).collect()
        };
        let copiers = warps.warps_at(copy.index);
        let same = |index: &usize| !warps.at(*index).intersection(&copiers).is_empty();
        if !own.iter().all(same) || !near(copy.index).is_empty() {
            return false;
        }
        let copies = objects.sites.iter().filter(|site| site.act == Act::Complete && site.variable == copy.variable);
        let peers: BTreeSet<usize> = copies.filter(|site| site.places == copy.places).map(|site| site.index).collect();
        let rounds: Vec<BTreeSet<usize>> = peers.iter().map(|peer| near(*peer)).filter(|met| !met.is_empty()).collect();
        let told: BTreeSet<usize> = rounds.iter().flatten().copied().collect();
        if told.len() < 2 || rounds.iter().any(|met| met.len() > 1) {
            return false;
        }
        let before = self.ways.first(copy.index, true, &[&self.waits]);
        // Threads that are elected anew for every step may come by an announcement and then, as the graph has it, by no copy.
        let spent = |index: &usize| {
            let met = self.ways.first(*index, false, &[&peers, &self.waits]);
            met.iter().any(|index| peers.contains(index))
        };
        let used = |wait: &usize| {
            let met = self.ways.first(*wait, true, &[own, &peers]);
            met.iter().any(|index| peers.contains(index))
                && met.iter().all(|index| peers.contains(index) || spent(index))
        };
        !before.is_empty() && before.iter().all(used)
    }

    /// Whether the innermost loop around an instruction has a wait, and none of some others.
    fn loop_lacks(&self, from: usize, others: &BTreeSet<usize>) -> bool {
        let graph = &self.warps.graph;
        let block_of = |index: usize| graph.sites.get(index).map(|site| site.block);
        let around = block_of(from).and_then(|block| graph.innermost_loop(block));
        around.is_some_and(|blocks| {
            let within = |index: &usize| block_of(*index).is_some_and(|block| blocks.contains(&block));
            self.waits.iter().any(within) && !others.iter().any(within)
        })
    }

    /// Whether a way leads from an instruction back to it through a wait, and through none of some others.
    fn comes_again(&self, from: usize, others: &BTreeSet<usize>) -> bool {
        let graph = &self.warps.graph;
        let Some(home) = graph.sites.get(from).map(|site| site.block) else { return false };
        let who = self.warps.warps_at(from);
        work::spend_on(graph.blocks.len() / 16);
        let mut seen = [vec![false; graph.blocks.len()], vec![false; graph.blocks.len()]];
        let mut open = vec![(home, from + 1, false)];
        while let Some((block, first, mut waited)) = open.pop() {
            work::spend(1);
            let mut ended = false;
            for (index, _) in graph.sites_of(block).filter(|(index, _)| *index >= first) {
                if index == from && waited {
                    return true;
                }
                waited |= self.waits.contains(&index);
                if others.contains(&index) {
                    ended = true;
                    break;
                }
            }
            let successors = graph.blocks.get(block as usize).into_iter().flat_map(|info| &info.successors);
            for edge in successors.filter(|edge| !ended && self.warps.may_go(&who, edge.to)) {
                let seen = &mut seen[usize::from(waited)];
                if !std::mem::replace(seen.get_mut(edge.to as usize).unwrap_or(&mut true), true) {
                    open.push((edge.to, 0, waited));
                }
            }
        }
        false
    }

    /// Whether one of some instructions stands before the next wait, on some way back or on.
    fn meets(&self, from: usize, wanted: &BTreeSet<usize>) -> bool {
        self.leads(from, wanted, true) || self.leads(from, wanted, false)
    }

    fn leads(&self, from: usize, wanted: &BTreeSet<usize>, back: bool) -> bool {
        let met = self.ways.first(from, back, &[wanted, &self.waits]);
        met.iter().any(|index| wanted.contains(index))
    }
}

/// Whether those who copy also arrive at the object, with no bytes, and whoever announces elsewhere does so for copies of its own.
fn arrives_bare(warps: &Warps<'_>, objects: &Objects<'_>, copy: &MbarrierSite) -> bool {
    let meets =
        |a: &MbarrierSite, b: &MbarrierSite| !warps.warps_at(a.index).intersection(&warps.at(b.index)).is_empty();
    let mut arrivals = objects.sites.iter().filter(|site| site.act == Act::Arrive && !site.remote);
    let has_copy = |site: &MbarrierSite| {
        let mut copies = objects.sites.iter().filter(|other| other.act == Act::Complete);
        copies.any(|other| one_object(site, other) && meets(site, other))
    };
    // What is announced to other blocks is for what these copy.
    let mut announced =
        objects.sites.iter().filter(|site| matches!(site.act, Act::ArriveExpect | Act::Expect) && !site.remote);
    arrivals.any(|site| one_object(site, copy) && meets(site, copy)) && announced.all(has_copy)
}
