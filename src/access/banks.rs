//! What one access of a warp costs: wavefronts of shared memory, sectors of global memory.

/// Banks of shared memory, each a word of four bytes wide.
pub const BANKS: u64 = 32;
/// Bytes of a word of a bank.
const WORD: u64 = 4;
/// Bytes that a wavefront moves.
const WAVEFRONT: u32 = 128;
/// Bytes of a sector of global memory.
pub const SECTOR: u64 = 32;
/// Bytes of a line of the first cache.
const LINE: u64 = 128;
/// Rows of a matrix that `ldmatrix` and `stmatrix` move at once.
const ROWS: u32 = 8;
/// Lanes of a warp.
const WARP: u32 = 32;

/// How lanes of a warp take part in an access of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Manner {
    /// Loads: lanes that have the same word share it, and neighbours that have the same words go as one.
    Loads,
    /// Stores: lanes that have the same word share it.
    Stores,
    /// Matrices: a row of 16 bytes by lane, eight of them at once.
    Rows,
    /// Atomics: lanes that have the same word come one after the other.
    Alone,
}

/// What an access of a warp takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passes {
    /// Wavefronts.
    pub wavefronts: u32,
    /// Wavefronts that as many lanes take where none meet.
    pub ideal: u32,
    /// The most words that one bank has to give in one go.
    pub ways: u32,
    /// That bank, and the lanes that meet there.
    pub worst: Option<(u32, Vec<u32>)>,
}

/// The lanes that go together, and the fewest wavefronts of all.
fn together(lanes: &[(u32, u64)], bytes: u32, manner: Manner) -> (u32, u32) {
    if manner == Manner::Rows {
        let last = lanes.last().map_or(0, |(lane, _)| lane + 1);
        return (ROWS, last.div_ceil(ROWS));
    }
    let group = (WAVEFRONT / bytes.max(WORD as u32)).max(1);
    let least = (WARP / group).max(1);
    // Every lane has the address of the one beside it, or of the one after that, or that one is off.
    let paired = |by: u32| {
        lanes.iter().all(|(lane, address)| {
            let other = lanes.binary_search_by_key(&(lane ^ by), |(lane, _)| *lane).ok().and_then(|at| lanes.get(at));
            other.is_none_or(|(_, other)| other == address)
        })
    };
    if manner == Manner::Loads && group < WARP && (paired(1) || paired(2)) {
        return (group * 2, least / 2);
    }
    (group, least)
}

/// Wavefronts of an access of shared memory, by lane and address, ascending by lane. As an H200 was seen to take them
/// (`scripts/accesses`).
pub fn wavefronts(lanes: &[(u32, u64)], bytes: u32, manner: Manner) -> Passes {
    let (group, ideal) = together(lanes, bytes, manner);
    let mut found = Passes { wavefronts: 0, ideal, ways: 0, worst: None };
    for these in lanes.chunk_by(|(one, _), (other, _)| one / group == other / group) {
        let (ways, bank) = ways_of(these, bytes, manner);
        found.wavefronts += ways;
        if ways > found.ways {
            found.ways = ways;
            found.worst = Some((bank, meeting(these, bytes, (bank, manner))));
        }
    }
    if found.wavefronts > 0 {
        found.wavefronts = found.wavefronts.max(ideal);
    } else {
        found.ideal = 0;
    }
    found
}

/// The words of a lane.
fn words(address: u64, bytes: u32) -> std::ops::RangeInclusive<u64> {
    address / WORD..=address.saturating_add(u64::from(bytes.max(1)) - 1) / WORD
}

/// The most words that one bank has to give to lanes that go together, and that bank.
fn ways_of(lanes: &[(u32, u64)], bytes: u32, manner: Manner) -> (u32, u32) {
    let mut all: Vec<u64> = lanes.iter().flat_map(|(_, address)| words(*address, bytes)).collect();
    all.sort_unstable();
    if manner != Manner::Alone {
        all.dedup();
    }
    let mut counts = [0u32; BANKS as usize];
    for word in &all {
        if let Some(count) = counts.get_mut((word % BANKS) as usize) {
            *count += 1;
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    let bank = counts.iter().position(|count| *count == most).unwrap_or(0);
    (most, bank as u32)
}

/// The lanes that have a word of a bank: all of them where they come one after the other, else the first one of each word.
fn meeting(lanes: &[(u32, u64)], bytes: u32, (bank, manner): (u32, Manner)) -> Vec<u32> {
    let mut seen: Vec<u64> = Vec::new();
    let mut found = Vec::new();
    for (lane, address) in lanes {
        for word in words(*address, bytes).filter(|word| word % BANKS == u64::from(bank)) {
            if manner == Manner::Alone || !seen.contains(&word) {
                seen.push(word);
                found.push(*lane);
            }
        }
    }
    found
}

/// Sectors that an access of global memory asks for, and the fewest that hold as many bytes.
pub fn sectors(lanes: &[(u32, u64)], bytes: u32) -> (u32, u32) {
    let mut ranges: Vec<(u64, u64)> =
        lanes.iter().map(|(_, address)| (*address, address.saturating_add(u64::from(bytes)))).collect();
    ranges.sort_unstable();
    let (mut asked, mut different, mut end, mut next_sector) = (0u64, 0u64, 0u64, 0u64);
    for (from, to) in ranges {
        different += to.saturating_sub(from.max(end));
        end = end.max(to);
        let (first, last) = ((from / SECTOR).max(next_sector), to.saturating_sub(1) / SECTOR);
        if last >= first {
            asked += last - first + 1;
            next_sector = last + 1;
        }
    }
    (asked as u32, different.div_ceil(SECTOR) as u32)
}

/// Lines of the first cache that an access of global memory touches, where the lowest lane's sector is the first of one.
pub fn lines(lanes: &[(u32, u64)], bytes: u32) -> u32 {
    let first = lanes.iter().map(|(_, address)| address / SECTOR * SECTOR).min().unwrap_or(0);
    let ends = |(_, address): &(u32, u64)| {
        let from = address - first;
        [from / LINE, from.saturating_add(u64::from(bytes.max(1)) - 1) / LINE]
    };
    let mut touched: Vec<u64> = lanes.iter().flat_map(ends).collect();
    touched.sort_unstable();
    touched.dedup();
    touched.len() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(of: impl Fn(u64) -> u64) -> Vec<(u32, u64)> {
        (0..32).map(|lane| (lane, of(u64::from(lane)))).collect()
    }

    #[test]
    fn banks() {
        let of = |stride: u64| wavefronts(&all(|lane| lane * stride), 4, Manner::Loads).wavefronts;
        assert_eq!([of(4), of(0), of(8), of(12), of(128), of(132)], [1, 1, 2, 1, 32, 1]);
        let found = wavefronts(&all(|lane| lane % 8 * 4 + lane / 8 * 128), 4, Manner::Loads);
        assert_eq!((found.ways, found.worst), (4, Some((0, vec![0, 8, 16, 24]))));
        let wide = |bytes: u32| wavefronts(&all(|lane| lane * u64::from(bytes)), bytes, Manner::Stores);
        assert_eq!([wide(8).wavefronts, wide(16).wavefronts], [2, 4]);
        assert_eq!(wavefronts(&all(|_| 0), 4, Manner::Alone).wavefronts, 32);
        assert_eq!(wavefronts(&all(|lane| lane * 128), 16, Manner::Rows).wavefronts, 32);
        assert_eq!(wavefronts(&[], 4, Manner::Loads).wavefronts, 0);
    }

    #[test]
    fn neighbours_that_load_the_same_go_as_one() {
        let pairs = all(|lane| lane / 2 * 8);
        assert_eq!(wavefronts(&pairs, 8, Manner::Loads).wavefronts, 1);
        assert_eq!(wavefronts(&pairs, 8, Manner::Stores).wavefronts, 2);
        let odd: Vec<(u32, u64)> = (0..32).step_by(2).map(|lane| (lane, u64::from(lane) * 136 + 16)).collect();
        assert_eq!(wavefronts(&odd, 16, Manner::Loads).wavefronts, 2);
        // Few lanes take as long as all.
        assert_eq!(wavefronts(&[(0, 0), (1, 128), (2, 256)], 16, Manner::Loads).wavefronts, 4);
    }

    #[test]
    fn lines_of_a_warp() {
        assert_eq!(lines(&all(|lane| lane * 4), 4), 1);
        assert_eq!(lines(&all(|lane| lane * 4 + 4096), 4), 1);
        assert_eq!(lines(&all(|lane| lane * 16), 16), 4);
        assert_eq!(lines(&all(|lane| lane / 4 * 1024 + lane % 4 * 16), 16), 8);
        assert_eq!(lines(&all(|lane| lane * 128), 4), 32);
    }

    #[test]
    fn sectors_of_a_warp() {
        assert_eq!(sectors(&all(|lane| lane * 4), 4), (4, 4));
        assert_eq!(sectors(&all(|lane| lane * 4 + 16), 4), (5, 4));
        assert_eq!(sectors(&all(|lane| lane * 128), 4), (32, 4));
        assert_eq!(sectors(&all(|_| 64), 4), (1, 1));
        assert_eq!(sectors(&all(|lane| lane * 16), 16), (16, 16));
    }
}
