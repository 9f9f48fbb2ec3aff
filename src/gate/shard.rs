//! Who measures what, where a gate is spread over machines that do not talk to each other.
//!
//! Every machine computes the same placement from the same list: rendezvous hashing (Thaler and Ravishankar 1998) says which shard a piece would
//! like best, and a bound on the load (Mirrokni, Thorup and Zadimoghaddam 2018) sends it to its next choice where that one is full. Hashing keeps
//! pieces where they were when others come and go, so that what a machine has in its cache stays of use; the bound keeps shards equally long.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// How much more than its part a shard takes before pieces go elsewhere: a sixteenth.
const SLACK: u64 = 16;
/// How many shards there may be.
const MOST: u32 = 4096;

/// One of how many: `3/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let expected = "expected I/N, such as 3/16";
        let (number, of) = text.split_once('/').ok_or_else(|| expected.to_owned())?;
        let parse =
            |text: &str| text.trim().parse::<u32>().map_err(|_| format!("'{text}' is not a number: {expected}"));
        let shard = Shard { number: parse(number)?, of: parse(of)? };
        if shard.of == 0 || shard.of > MOST {
            return Err(format!("{} shards: expected 1 to {MOST}", shard.of));
        }
        if shard.number == 0 || shard.number > shard.of {
            return Err(format!("there is no shard {} of {}: expected 1 to {}", shard.number, shard.of, shard.of));
        }
        Ok(shard)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// A piece of the work, as far as its place depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// What it is, the same on every machine.
    pub key: String,
    /// What it costs, in any unit.
    pub cost: u64,
}

/// The shard of each piece, from 1.
pub fn place(loads: &[Load], shards: u32) -> Vec<u32> {
    let hashed: Vec<(u64, u64)> = loads.iter().map(|load| (rounded(load.cost), hash(&load.key))).collect();
    let total: u64 = hashed.iter().fold(0, |sum, (cost, _)| sum.saturating_add(*cost));
    let part = total.div_ceil(u64::from(shards.max(1)));
    let room = part.saturating_add(part / SLACK);
    // The heaviest first: what comes later is small enough to fill up what is left.
    let mut order: Vec<usize> = (0..hashed.len()).collect();
    order.sort_by_key(|at| hashed.get(*at).map(|(cost, hash)| (std::cmp::Reverse(*cost), *hash)));
    let mut taken = vec![0u64; shards.max(1) as usize];
    let mut placed = vec![1u32; loads.len()];
    for at in order {
        let Some((cost, hash)) = hashed.get(at) else { continue };
        let liked = |shard: &usize| mixed(hash ^ mixed(*shard as u64));
        let fits = |shard: &usize| taken.get(*shard).is_some_and(|load| load.saturating_add(*cost) <= room);
        let best = (0..taken.len()).filter(fits).max_by_key(liked);
        let least =
            || (0..taken.len()).min_by_key(|shard| (taken.get(*shard).copied(), std::cmp::Reverse(liked(shard))));
        let Some(shard) = best.or_else(least) else { continue };
        if let (Some(load), Some(place)) = (taken.get_mut(shard), placed.get_mut(at)) {
            *load = load.saturating_add(*cost);
            *place = shard as u32 + 1;
        }
    }
    placed
}

/// A cost to a quarter of its power of two: a time that is measured again is a little different, and is no reason to move.
fn rounded(cost: u64) -> u64 {
    let cost = cost.clamp(1, 1 << 50);
    let step = (1u64 << cost.ilog2()) >> 2;
    (cost + step / 2).checked_div(step).map_or(cost, |steps| steps * step)
}

fn hash(key: &str) -> u64 {
    let digest = Sha256::digest(key.as_bytes());
    digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
fn mixed(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels as libraries have them: most are small, some take a hundred times as long.
    fn loads(count: usize, seed: u64) -> Vec<Load> {
        let cost = |at: u64| {
            let lot = |salt: u64| (mixed(at ^ mixed(salt ^ seed)) >> 11) as f64 / (1u64 << 53) as f64;
            let normal = (0..12).map(lot).sum::<f64>() - 6.0;
            (100_000.0 * (normal * 0.9).exp()) as u64
        };
        (0..count).map(|at| Load { key: format!("kernels/k{at}.ptx\tsm_90a"), cost: cost(at as u64) }).collect()
    }

    fn heaviest(loads: &[Load], placed: &[u32], shards: u32) -> f64 {
        let mut taken = vec![0u64; shards as usize];
        loads.iter().zip(placed).for_each(|(load, shard)| taken[*shard as usize - 1] += load.cost);
        let total: u64 = taken.iter().sum();
        *taken.iter().max().unwrap() as f64 * f64::from(shards) / total as f64
    }

    #[test]
    fn shards_are_equally_long_and_stay_when_kernels_come() {
        for (count, shards) in [(20_000, 16), (20_000, 256), (100, 4), (3, 16)] {
            let before = loads(count, 1);
            let placed = place(&before, shards);
            let longest = heaviest(&before, &placed, shards);
            // A hundredth more kernels, and every time measured again.
            let mut after = loads(count + count / 100, 1);
            for (at, load) in after.iter_mut().enumerate() {
                load.cost = load.cost * (95 + mixed(at as u64) % 11) / 100;
            }
            let again = place(&after, shards);
            let moved = placed.iter().zip(&again).filter(|(a, b)| a != b).count();
            assert!(count < 1000 || longest < 1.1, "{longest}");
            assert!(count < 1000 || moved * 20 < count, "{moved} of {count}");
            assert!(placed.iter().all(|shard| (1..=shards).contains(shard)));
        }
    }

    #[test]
    fn costs_that_nobody_can_add_are_no_harm() {
        let huge: Vec<Load> = (0..64).map(|at| Load { key: at.to_string(), cost: u64::MAX }).collect();
        let placed = place(&huge, 8);
        assert!((1..=8).all(|shard| placed.iter().filter(|placed| **placed == shard).count() == 8));
        assert!(place(&[], 8).is_empty());
        assert_eq!(place(&huge, 1), vec![1; 64]);
    }

    #[test]
    fn a_shard_is_spelt_as_number_of_count() {
        assert_eq!("3/16".parse(), Ok(Shard { number: 3, of: 16 }));
        for wrong in ["3", "0/4", "5/4", "1/0", "a/4", "1/5000", "-1/4", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
