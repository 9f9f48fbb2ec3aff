//! An mbarrier: arrivals that a phase lacks, bytes that are announced and have not come, and the number of the phase.
//!
//! Bytes that a tensor map decides are not known. A phase with such copies ends when all its arrivals and all its copies have
//! come; what the announcement says of the copies is kept as an [`Equation`], and all equations of a kernel must have one
//! solution.

use super::{Fault, SharedAddress};

/// Bits of the state that an arrival leaves: its phase, and above it the arrivals that the phase lacked before.
pub const PENDING_SHIFT: u32 = 32;

/// The state that an arrival leaves.
pub fn state_of(phase: u64, pending: u64) -> u64 {
    pending << PENDING_SHIFT | phase & ((1 << PENDING_SHIFT) - 1)
}

/// The most arrivals that a phase can count.
pub const MAX_COUNT: u32 = (1 << 20) - 1;
/// The most bytes that can be announced or come too early.
const MAX_BYTES: i64 = (1 << 20) - 1;

/// What an arrival does beside arriving.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival {
    /// Bytes that it announces.
    pub bytes: i64,
    /// Whether later phases count on one less.
    pub drop: bool,
}

/// Bytes announced for the copies of a phase whose sizes tensor maps decide, by map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Equation {
    /// How often each map was copied by, ascending.
    pub copies: Vec<(u64, u32)>,
    /// What was announced for them.
    pub bytes: i64,
}

/// An mbarrier object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mbarrier {
    /// Arrivals of each phase.
    pub count: u32,
    /// Arrivals that this phase still lacks.
    pub pending: u32,
    /// Bytes announced that have not come; below zero where they came first.
    pub bytes: i64,
    /// Which phase it is in, from 0.
    pub phase: u64,
    /// All bytes announced in this phase.
    pub announced: i64,
    /// Bytes that came in this phase with a known size.
    pub came: i64,
    /// Copies under way for this phase.
    pub open: u32,
    /// Those that have come in this phase, by map, ascending.
    pub copies: Vec<(u64, u32)>,
    /// Whether a number announced in this phase was made up: it contradicts nothing.
    is_guessed: bool,
    valid: bool,
}

impl Mbarrier {
    /// A fresh one.
    pub fn new(count: u32) -> Mbarrier {
        Mbarrier {
            count,
            pending: count,
            bytes: 0,
            phase: 0,
            announced: 0,
            came: 0,
            open: 0,
            copies: Vec::new(),
            is_guessed: false,
            valid: true,
        }
    }

    /// Whether it may be used.
    pub fn is_valid(&self) -> bool {
        self.valid
    }

    /// `mbarrier.inval`
    pub fn invalidate(&mut self) {
        self.valid = false;
    }

    /// Whether the phase with a parity is over: the one under way has the other parity.
    pub fn is_over(&self, parity: u64) -> bool {
        self.phase & 1 != parity & 1
    }

    /// Whether more bytes have come than were announced.
    pub fn is_owed(&self) -> bool {
        self.bytes < 0 || self.announced == 0 && !self.copies.is_empty()
    }

    /// What is announced in this phase is what an input was taken to be.
    pub fn guess(&mut self) {
        self.is_guessed = true;
    }

    /// Announces bytes.
    pub fn expect(&mut self, at: SharedAddress, bytes: i64) -> Result<(), Fault> {
        self.bytes += bytes;
        self.announced += bytes;
        if self.bytes > MAX_BYTES { Err(Fault::TooManyBytes { at, bytes: self.bytes }) } else { Ok(()) }
    }

    /// A copy of so many bytes has come.
    pub fn land(&mut self, at: SharedAddress, bytes: i64) -> Result<Option<Equation>, Fault> {
        self.open = self.open.saturating_sub(1);
        self.complete(at, bytes)
    }

    /// Bytes come. Gives the equation of the phase, if that ends it and tensor maps had a part in it.
    pub fn complete(&mut self, at: SharedAddress, bytes: i64) -> Result<Option<Equation>, Fault> {
        self.bytes -= bytes;
        self.came += bytes;
        if self.bytes < -MAX_BYTES {
            return Err(Fault::TooManyBytes { at, bytes: self.bytes });
        }
        Ok(self.settle())
    }

    /// A copy has been started.
    pub fn start(&mut self) {
        self.open += 1;
    }

    /// One whose size a tensor map decides has come.
    pub fn finish(&mut self, map: u64) -> Option<Equation> {
        self.open = self.open.saturating_sub(1);
        match self.copies.binary_search_by_key(&map, |(map, _)| *map) {
            Ok(at) => self.copies[at].1 += 1,
            Err(at) => self.copies.insert(at, (map, 1)),
        }
        self.settle()
    }

    /// Threads arrive together.
    pub fn arrive(&mut self, at: SharedAddress, arrivals: u64, how: Arrival) -> Result<Option<Equation>, Fault> {
        self.expect(at, how.bytes)?;
        let left = u32::try_from(arrivals).ok().and_then(|arrivals| self.pending.checked_sub(arrivals));
        let Some(left) = left else {
            return Err(Fault::TooManyArrivals { at, pending: self.pending, came: arrivals });
        };
        self.pending = left;
        if how.drop {
            self.count = self.count.saturating_sub(arrivals as u32);
        }
        Ok(self.settle())
    }

    /// One more arrival is waited for in this phase: that of copies which bring their own.
    pub fn add_pending(&mut self, at: SharedAddress, arrivals: u32) -> Result<(), Fault> {
        self.pending = self.pending.saturating_add(arrivals);
        if self.pending > MAX_COUNT {
            return Err(Fault::MbarrierCount { at, count: u64::from(self.pending) });
        }
        Ok(())
    }

    fn settle(&mut self) -> Option<Equation> {
        // Bytes of copies by tensor maps: what was announced for them, and not for others, is theirs.
        let by_maps = !self.copies.is_empty();
        let bytes_done = if by_maps { self.announced > self.came } else { self.bytes == 0 };
        // Without a map in it the bytes alone count, whatever is under way.
        if self.pending > 0 || by_maps && self.open > 0 || !bytes_done {
            return None;
        }
        let copies = std::mem::take(&mut self.copies);
        let bytes = self.announced - self.came;
        let is_guessed = std::mem::take(&mut self.is_guessed);
        let equation = (by_maps && !is_guessed).then_some(Equation { copies, bytes });
        self.phase += 1;
        self.pending = self.count;
        (self.bytes, self.announced, self.came) = (0, 0, 0);
        equation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: SharedAddress = SharedAddress(1024);

    #[test]
    fn a_phase_ends_with_its_arrivals_and_its_bytes() {
        let mut mbarrier = Mbarrier::new(2);
        assert!(!mbarrier.is_over(0));
        assert!(mbarrier.is_over(1), "the phase before the first is over");
        mbarrier.arrive(AT, 1, Arrival { bytes: 128, drop: false }).unwrap();
        mbarrier.arrive(AT, 1, Arrival::default()).unwrap();
        assert_eq!(mbarrier.phase, 0);
        mbarrier.complete(AT, 128).unwrap();
        assert_eq!((mbarrier.phase, mbarrier.pending), (1, 2));
        assert!(mbarrier.is_over(0));
    }

    #[test]
    fn bytes_may_come_before_they_are_announced() {
        let mut mbarrier = Mbarrier::new(1);
        mbarrier.complete(AT, 64).unwrap();
        mbarrier.arrive(AT, 1, Arrival { bytes: 64, drop: false }).unwrap();
        assert_eq!(mbarrier.phase, 1);
        // Bytes that nobody announces keep the phase open.
        mbarrier.complete(AT, 64).unwrap();
        mbarrier.arrive(AT, 1, Arrival::default()).unwrap();
        assert_eq!(mbarrier.phase, 1);
    }

    /// Seen on an H200: an illegal instruction.
    #[test]
    fn more_lanes_than_the_phase_lacks_are_undefined() {
        let mut mbarrier = Mbarrier::new(33);
        mbarrier.arrive(AT, 32, Arrival::default()).unwrap();
        let fault = mbarrier.arrive(AT, 32, Arrival::default());
        assert_eq!(fault, Err(Fault::TooManyArrivals { at: AT, pending: 1, came: 32 }));
    }

    #[test]
    fn copies_by_tensor_maps_leave_an_equation() {
        let mut mbarrier = Mbarrier::new(1);
        mbarrier.start();
        mbarrier.start();
        mbarrier.arrive(AT, 1, Arrival { bytes: 4096, drop: false }).unwrap();
        assert_eq!(mbarrier.finish(7), None);
        assert_eq!(mbarrier.finish(7), Some(Equation { copies: vec![(7, 2)], bytes: 4096 }));
        assert_eq!(mbarrier.phase, 1);
        // The phase does not wait for one that nobody announced.
        mbarrier.start();
        mbarrier.arrive(AT, 1, Arrival::default()).unwrap();
        assert_eq!(mbarrier.phase, 2);
        assert_eq!(mbarrier.finish(7), None);
        assert!(mbarrier.is_owed());
    }

    #[test]
    fn a_drop_lowers_later_phases() {
        let mut mbarrier = Mbarrier::new(2);
        mbarrier.arrive(AT, 1, Arrival { bytes: 0, drop: true }).unwrap();
        mbarrier.arrive(AT, 1, Arrival::default()).unwrap();
        assert_eq!((mbarrier.phase, mbarrier.pending), (1, 1));
    }
}
