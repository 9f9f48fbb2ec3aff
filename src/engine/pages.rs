//! How much code a page holds beside its table.

/// Functions whose code is in one page, and how many instructions they have together: about 20 MB, which a browser opens in a second.
const FUNCTIONS: usize = 60;
const INSTRUCTIONS: u64 = 120_000;

/// What is left of a page's room.
pub(super) struct PageRoom {
    functions: usize,
    instructions: u64,
}

impl PageRoom {
    /// An empty page.
    pub(super) fn new() -> Self {
        PageRoom { functions: FUNCTIONS, instructions: INSTRUCTIONS }
    }

    /// Takes room for these functions, if there is as much.
    pub(super) fn take(&mut self, functions: usize, instructions: u64) -> bool {
        let left = (self.functions.checked_sub(functions), self.instructions.checked_sub(instructions));
        let (Some(functions), Some(instructions)) = left else { return false };
        *self = PageRoom { functions, instructions };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_leaves_the_room_to_others() {
        let mut room = PageRoom::new();
        assert!(room.take(1, INSTRUCTIONS - 10));
        assert!(!room.take(1, 11));
        assert!(room.take(1, 10));
        assert!(!room.take(FUNCTIONS, 0));
    }
}
