//! Copies that go together: those on one mbarrier between one wait and the next, as the kernel is written, or on what one computed address
//! says, and the bytes that are announced with them.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::Line;
use crate::simt::Warps;
use crate::sync::rules::copies::{Copies, Moved};
use crate::sync::rules::mbarrier_checks::Objects;
use crate::sync::rules::mbarriers::{Act, MbarrierSite, Place};

/// Kinds of batches that others are compared with.
const MAX_KINDS: usize = 64;
/// Batches that say as much for the same copies, from which on none of them is for others.
const ENOUGH: usize = 3;
/// Batches with no announcement that are looked at.
const MAX_ORPHANS: usize = 64;

/// Copies with fewer bytes announced than others that are just the same.
pub(super) struct Less<'a> {
    /// The first of them.
    pub copy: &'a MbarrierSite,
    /// The bytes that are announced.
    pub announced: u64,
    /// Those of the others.
    pub others: u64,
    /// Where the others are.
    pub other: Line,
}

/// Bytes that are announced, and what is copied.
type Says<'b, 'a> = (Option<u64>, Option<&'b [Moved<'a>]>);

struct Batch<'a> {
    first: &'a MbarrierSite,
    /// What is copied; none where some of it is not known.
    copies: Option<Vec<Moved<'a>>>,
    /// The places of the copies among the instructions.
    sites: Vec<usize>,
    /// Those of the announcements.
    announcements: BTreeSet<usize>,
    /// The bytes that are announced; none where some of it is not known.
    announced: Option<u64>,
    /// Blocks of the kernel that it is in.
    blocks: BTreeSet<u32>,
}

impl<'a> Batch<'a> {
    fn new(first: &'a MbarrierSite) -> Batch<'a> {
        let (announcements, blocks) = (BTreeSet::new(), BTreeSet::new());
        Batch { first, copies: Some(Vec::new()), sites: Vec::new(), announcements, announced: Some(0), blocks }
    }

    /// How many bytes it announces to which copies.
    fn says(&self) -> Says<'_, 'a> {
        (self.announced, self.copies.as_deref())
    }

    /// What is copied, where it is known and something is.
    fn moves(&self) -> Option<&[Moved<'a>]> {
        self.copies.as_deref().filter(|copies| !copies.is_empty())
    }

    /// Whether the bytes that are announced are those that are copied, and no others.
    fn is_balanced(&self) -> bool {
        let bytes = self.moves().into_iter().flatten().map(|copy| match copy {
            Moved::Bytes(bytes) => Some(*bytes),
            Moved::Box(..) => None,
        });
        let all = bytes.reduce(|all, more| all?.checked_add(more?)).flatten();
        self.announcements.len() == 1 && self.blocks.len() == 1 && all.is_some() && all == self.announced
    }

    /// Whether it copies all that another one does.
    fn includes(&self, others: &[Moved<'a>]) -> bool {
        // Both are sorted.
        let mut copies = self.moves().into_iter().flatten();
        others.iter().all(|wanted| copies.any(|copy| copy == wanted))
    }
}

/// What is known of the instructions around a copy.
pub(super) trait Around {
    /// The announcements that may be for the object of a copy.
    fn told(&self, copy: &MbarrierSite) -> BTreeSet<usize>;

    /// Those of some announcements that come before or after a copy with no wait between.
    fn met(&self, copy: &MbarrierSite, told: &BTreeSet<usize>) -> BTreeSet<usize>;

    /// Those but some that come before a copy with no other use of its object between, whatever is waited for.
    fn before(&self, copy: &MbarrierSite, but: &BTreeSet<usize>) -> BTreeSet<usize>;

    /// Whether a copy comes after another one with no wait between.
    fn follows(&self, first: usize, second: usize) -> bool;
}

/// The batches of a kernel, in order.
pub(super) struct Batches<'a> {
    all: Vec<Batch<'a>>,
    /// By announcement: its batch.
    by_announcement: BTreeMap<usize, usize>,
}

impl<'a> Batches<'a> {
    pub(super) fn new(warps: &Warps<'a>, objects: &Objects<'a>) -> Batches<'a> {
        let mut all: Vec<Batch<'a>> = Vec::new();
        let mut by_announcement: BTreeMap<usize, usize> = BTreeMap::new();
        let moved = Copies::new(warps);
        // A place is used again after a wait; what computes an address computes another one then.
        let mut placed: BTreeMap<(Option<u32>, i64), usize> = BTreeMap::new();
        let mut computed: BTreeMap<(Option<u32>, (u32, i64)), usize> = BTreeMap::new();
        for site in objects.sites {
            let Some(at) = warps.graph.sites.get(site.index) else { continue };
            if site.act == Act::Wait {
                placed.clear();
            }
            let bytes = match site.act {
                Act::Complete => Some(0),
                Act::Expect | Act::ArriveExpect => site.argument,
                _ => continue,
            };
            let next = all.len();
            let place = match (site.place, site.identity) {
                (Place::At(place), _) => *placed.entry((site.variable, place)).or_insert(next),
                (_, Some(identity)) => *computed.entry((site.variable, identity)).or_insert(next),
                _ => next,
            };
            if place == next {
                all.push(Batch::new(site));
            }
            let Some(batch) = all.get_mut(place) else { continue };
            batch.announced = batch.announced.zip(bytes).and_then(|(all, more)| all.checked_add(more));
            batch.blocks.insert(at.block);
            if site.act != Act::Complete {
                batch.announcements.insert(site.index);
                by_announcement.insert(site.index, place);
                continue;
            }
            if batch.sites.is_empty() {
                batch.first = site;
            }
            batch.sites.push(site.index);
            let moved = moved.moved(site);
            batch.copies = batch.copies.take().zip(moved).map(|(mut copies, moved)| {
                copies.push(moved);
                copies
            });
        }
        for batch in &mut all {
            batch.copies.iter_mut().for_each(|copies| copies.sort_unstable());
        }
        Batches { all, by_announcement }
    }

    fn of(&self, announcement: usize) -> Option<&Batch<'a>> {
        self.by_announcement.get(&announcement).and_then(|place| self.all.get(*place))
    }

    /// Those with no announcement.
    fn orphans(&self) -> impl Iterator<Item = &Batch<'a>> {
        self.all.iter().filter(|batch| !batch.sites.is_empty() && batch.announcements.is_empty())
    }

    /// The announcements with no copies of their own that come before a batch, and may be for it; none where others may come instead.
    fn told_before(&self, batch: &Batch<'a>, around: &dyn Around) -> Option<Vec<&Batch<'a>>> {
        let before = around.before(batch.first, &batch.announcements);
        let before: Vec<Option<&Batch<'a>>> = before.into_iter().map(|index| self.of(index)).collect();
        // No bytes are no announcement.
        let is_loose = |other: &&Batch<'a>| other.sites.is_empty() && other.announced != Some(0);
        let loose: Vec<&Batch<'a>> = before.iter().copied().flatten().filter(is_loose).collect();
        (loose.is_empty() || loose.len() == before.len()).then_some(loose)
    }

    /// The bytes that are announced to a batch, where they are known and there are any.
    fn announced(&self, batch: &Batch<'a>, around: &dyn Around) -> Option<u64> {
        let before = match &self.told_before(batch, around)?[..] {
            [] => 0,
            [other] => other.announced?,
            _ => return None,
        };
        batch.announced?.checked_add(before).filter(|bytes| *bytes > 0)
    }

    /// The first batch with fewer bytes announced than another one that copies just the same, or with no more than one that copies less.
    pub(super) fn told_of_less(&self, warps: &Warps<'a>, around: &dyn Around) -> Option<Less<'a>> {
        let mut most: BTreeMap<&[Moved<'a>], &Batch<'a>> = BTreeMap::new();
        for batch in self.all.iter().filter(|batch| batch.announced.is_some_and(|bytes| bytes > 0)) {
            let Some(moves) = batch.moves() else { continue };
            let known = most.entry(moves).or_insert(batch);
            if known.announced < batch.announced {
                *known = batch;
            }
        }
        // Copies with no announcement of their own, and none before them, may go with others.
        let mut orphans = self.orphans();
        let is_untold = |batch: &&Batch<'a>| self.told_before(batch, around).is_none_or(|told| told.is_empty());
        let untold = orphans.by_ref().take(MAX_ORPHANS).filter(is_untold);
        let claimed: BTreeSet<usize> = untold.flat_map(|batch| around.told(batch.first)).collect();
        if orphans.next().is_some() {
            return None;
        }
        most.retain(|_, batch| batch.announcements.is_disjoint(&claimed));
        // What is in a loop runs more often than what is outside.
        let is_even = |batch: &Batch<'_>| {
            let loops = batch.blocks.iter().map(|block| warps.graph.loop_of(*block));
            loops.collect::<BTreeSet<_>>().len() == 1
        };
        let less = |batch: &Batch<'a>, other: &Batch<'a>| {
            let others = other.announced?;
            let more = batch.sites.len() > other.sites.len();
            let is_short = |announced: u64| announced < others || more && announced == others;
            // Where it copies more, all of it must run: copies may stand for each other on different ways.
            let is_whole = || batch.sites.windows(2).all(|pair| matches!(pair, [a, b] if around.follows(*a, *b)));
            let is_less = batch.announced.is_some_and(is_short)
                && (!more || other.moves().is_some_and(|moves| batch.includes(moves)) && is_whole())
                && is_even(batch)
                && is_even(other);
            let announced =
                is_less.then(|| self.announced(batch, around)).flatten().filter(|bytes| is_short(*bytes))?;
            Some(Less { copy: batch.first, announced, others, other: other.first.line })
        };
        let kinds: Vec<&Batch<'a>> = most.values().copied().take(MAX_KINDS).collect();
        self.all.iter().find_map(|batch| {
            let same = most.get(batch.moves()?);
            let fewer = kinds.iter().filter(|other| other.sites.len() < batch.sites.len());
            same.into_iter().chain(fewer).find_map(|other| less(batch, other))
        })
    }

    /// What batches say that are often the same, and not all of them just before another one or near it.
    fn spent(&self, batch: &Batch<'a>, near: &BTreeSet<usize>, around: &dyn Around) -> BTreeSet<Says<'_, 'a>> {
        let before = around.before(batch.first, &batch.announcements);
        let mut found: BTreeMap<Says<'_, 'a>, (usize, bool)> = BTreeMap::new();
        for other in self.all.iter().filter(|other| other.announced.is_some() && other.moves().is_some()) {
            let (count, elsewhere) = found.entry(other.says()).or_default();
            *count += usize::from(!other.announcements.is_empty());
            *elsewhere |= other.announcements.iter().all(|index| !near.contains(index) && !before.contains(index));
        }
        let is_spent = |(count, elsewhere): (usize, bool)| count >= ENOUGH && elsewhere;
        found.into_iter().filter(|(_, found)| is_spent(*found)).map(|(says, _)| says).collect()
    }

    /// The first copy of a batch with no announcement, though whatever else is copied like it has one.
    pub(super) fn without_its_own(&self, around: &dyn Around) -> Option<&'a MbarrierSite> {
        let is_announced = |batch: &&Batch<'a>| !batch.sites.is_empty() && !batch.announcements.is_empty();
        let announced: Vec<&Batch<'a>> = self.all.iter().filter(is_announced).collect();
        let orphans: Vec<&Batch<'a>> = self.orphans().take(MAX_ORPHANS).collect();
        let lacks = |batch: &&&Batch<'a>| {
            let told = around.told(batch.first);
            let near = around.met(batch.first, &told);
            // Announcements that say just the bytes of their own copies, or none, are for no others. Nor are those that say as much for the same
            // copies as some that do not come before this one, where nothing else is without its own.
            let spent = if orphans.len() == 1 { self.spent(batch, &near, around) } else { BTreeSet::new() };
            let theirs = |index: &usize| {
                let is_none = |other: &Batch<'a>| other.announced == Some(0) || other.is_balanced();
                self.of(*index).is_some_and(|other| is_none(other) || spent.contains(&other.says()))
            };
            if !told.is_empty() && told.iter().all(theirs) {
                return true;
            }
            let boxes = |moves: &&[Moved<'a>]| moves.iter().all(|copy| matches!(copy, Moved::Box(..)));
            let Some(moves) = batch.moves().filter(boxes) else { return false };
            let shares = |other: &&Batch<'a>| {
                let known = other.copies.as_ref();
                !std::ptr::eq(*other, **batch)
                    && known.is_none_or(|copies| copies.iter().any(|copy| moves.contains(copy)))
            };
            if orphans.iter().any(shares) || self.told_before(batch, around).is_none_or(|told| !told.is_empty()) {
                return false;
            }
            let alike: Vec<&Batch<'a>> = announced.iter().copied().filter(|other| other.includes(moves)).collect();
            if near.is_empty() {
                return !alike.is_empty() && announced.len() > 1;
            }
            // An announcement nearby may be for both, if others with as many bytes are not for their copies alone.
            let agree = |other: &Batch<'a>| {
                let same = |more: &&Batch<'a>| more.announced == other.announced && more.copies == other.copies;
                other.announced.is_some() && alike.iter().copied().filter(same).count() > 1
            };
            near.iter().all(|index| alike.iter().any(|other| other.announcements.contains(index) && agree(other)))
        };
        orphans.iter().find(lacks).map(|batch| batch.first)
    }
}
