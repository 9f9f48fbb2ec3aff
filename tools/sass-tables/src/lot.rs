//! Numbers drawn by lot, the same in every run.

/// A sequence of them: xorshift64*.
#[derive(Clone, Debug)]
pub struct Lot(u64);

impl Lot {
    /// The sequence that a number starts.
    pub fn new(seed: u64) -> Lot {
        Lot(seed | 1)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
