//! Work that is counted, so that no input makes it run away.
//!
//! Loops whose length an input decides call [`spend`]. Around them, [`within`] gives a question about a kernel so many steps, and
//! [`until`] gives an input so much time; past either, the work is left by unwinding to whoever set the limit, and nobody in
//! between needs to know. Steps decide about a report, because every machine counts the same; the clock ends in an error,
//! never in another answer. Where nobody set a limit there is none.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The clock is looked at once in so many steps: looking costs as much as twenty of them.
const STEPS_BETWEEN_LOOKS: u64 = 1 << 12;

/// When work has to be over: at a moment, or when somebody says so.
#[derive(Clone, Debug, Default)]
pub struct Deadline {
    at: Option<Instant>,
    stop: Option<Arc<AtomicBool>>,
}

impl Deadline {
    /// None.
    pub const NEVER: Deadline = Deadline { at: None, stop: None };

    /// So long from now; never where no clock goes that far.
    pub fn after(time: Duration) -> Deadline {
        Deadline { at: Instant::now().checked_add(time), stop: None }
    }

    /// The same, and when this is set.
    pub fn or_when(self, stop: Arc<AtomicBool>) -> Deadline {
        Deadline { stop: Some(stop), ..self }
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
            || self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// How much time is left; none where there is no end.
    pub fn left(&self) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    fn ends(&self) -> bool {
        self.at.is_some() || self.stop.is_some()
    }
}

/// The steps that this thread may still do.
#[derive(Clone, Copy)]
struct Meter {
    /// Steps to go until something has to be looked at.
    ahead: u64,
    /// Steps to go after those; [`NO_LIMIT`] of them never end.
    beyond: u64,
}

/// As many steps as anybody likes.
const NO_LIMIT: u64 = u64::MAX;

impl Meter {
    fn new(steps: u64, deadline: &Deadline) -> Meter {
        let ahead = if deadline.ends() { steps.min(STEPS_BETWEEN_LOOKS) } else { steps };
        Meter { ahead, beyond: if steps == NO_LIMIT { NO_LIMIT } else { steps - ahead } }
    }

    fn left(self) -> u64 {
        self.ahead.saturating_add(self.beyond)
    }
}

thread_local! {
    static TICKS: Cell<u32> = const { Cell::new(0) };
    static METER: Cell<Meter> = const { Cell::new(Meter { ahead: u64::MAX, beyond: NO_LIMIT }) };
    static DEADLINE: RefCell<Deadline> = const { RefCell::new(Deadline::NEVER) };
}

/// More steps than were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {steps} steps")]
pub struct TooManySteps {
    /// How many were given.
    pub steps: u64,
}

/// The time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time is over")]
pub struct TimeOver;

/// Why work is being left: whether the unwinding is for a [`within`] or for an [`until`].
enum Left {
    Steps,
    Time,
}

/// Counts some steps of this thread's work. Does not return where they are too many, or where the time is over.
#[inline]
pub fn spend(steps: u64) {
    let meter = METER.get();
    match meter.ahead.checked_sub(steps) {
        Some(ahead) => METER.set(Meter { ahead, ..meter }),
        None => look(meter, steps),
    }
}

/// Passes one of the things that a loop goes through once each: looks at the clock from time to time, as [`spend`] does, and counts no
/// step. For readers, which are linear in what they read.
#[inline]
pub fn tick() {
    let ticks = TICKS.get().wrapping_add(1);
    TICKS.set(ticks);
    if u64::from(ticks) % STEPS_BETWEEN_LOOKS == 0 {
        check_time();
    }
}

/// Counts steps for a number of things.
#[inline]
pub fn spend_on(count: usize) {
    spend(count as u64);
}

#[cold]
#[inline(never)]
fn look(meter: Meter, steps: u64) {
    let deadline = deadline();
    if deadline.is_over() {
        panic::resume_unwind(Box::new(Left::Time));
    }
    let left = match meter.left() {
        NO_LIMIT => NO_LIMIT,
        left => left.checked_sub(steps).unwrap_or_else(|| panic::resume_unwind(Box::new(Left::Steps))),
    };
    METER.set(Meter::new(left, &deadline));
}

/// Does some work in so many steps, or not at all. What it spends is not taken from a limit around it: whoever asks several questions
/// shares their steps out.
pub fn within<T>(steps: u64, work: impl FnOnce() -> T) -> Result<T, TooManySteps> {
    caught(steps, deadline(), work).map_err(|left| match left {
        Left::Steps => TooManySteps { steps },
        Left::Time => panic::resume_unwind(Box::new(Left::Time)),
    })
}

/// Does some work and says how many steps it took; none where steps are not counted here.
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = METER.get().left();
    let done = work();
    let steps = if before == NO_LIMIT { 0 } else { before.saturating_sub(METER.get().left()) };
    (done, steps)
}

/// Does some work until a deadline, or not at all. It takes the place of one that was set before.
pub fn until<T>(deadline: Deadline, work: impl FnOnce() -> T) -> Result<T, TimeOver> {
    caught(METER.get().left(), deadline, work).map_err(|left| match left {
        Left::Time => TimeOver,
        Left::Steps => panic::resume_unwind(Box::new(Left::Steps)),
    })
}

/// The deadline that this thread works under: to hand on to threads that work for it.
pub fn deadline() -> Deadline {
    DEADLINE.with_borrow(Clone::clone)
}

/// Looks at the clock now, as [`spend`] does from time to time.
#[inline(never)]
pub fn check_time() {
    if deadline().is_over() {
        panic::resume_unwind(Box::new(Left::Time));
    }
}

/// Does some work under the deadline of the thread that it is for. Past it, unwinds as that thread would.
pub fn under<T>(deadline: &Deadline, work: impl FnOnce() -> T) -> T {
    until(deadline.clone(), work).unwrap_or_else(|TimeOver| panic::resume_unwind(Box::new(Left::Time)))
}

fn caught<T>(steps: u64, deadline: Deadline, work: impl FnOnce() -> T) -> Result<T, Left> {
    let meter = METER.replace(Meter::new(steps, &deadline));
    let around = DEADLINE.replace(deadline);
    // What the work had begun is dropped on the way; nothing that outlives it is changed half way.
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    METER.set(meter);
    DEADLINE.set(around);
    done.map_err(|why: Box<dyn Any + Send>| match why.downcast::<Left>() {
        Ok(left) => *left,
        Err(other) => panic::resume_unwind(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forever() -> u64 {
        loop {
            spend(1);
        }
    }

    #[test]
    fn steps_are_counted_and_end_the_work() {
        let count = |n: u64| move || (0..n).inspect(|_| spend(1)).count();
        assert_eq!(within(10, count(10)), Ok(10));
        assert_eq!(within(10, count(11)), Err(TooManySteps { steps: 10 }));
        assert_eq!(within(10, || within(100, count(50))), Ok(Ok(50)), "a limit inside stands on its own");
        assert_eq!(within(10, || (within(5, count(6)), count(10)())), Ok((Err(TooManySteps { steps: 5 }), 10)));
        assert_eq!(within(10_000, || counted(count(9000))), Ok((9000, 9000)));
        assert_eq!(counted(count(9)), (9, 0), "nobody counts");
        // Without a limit there is none.
        spend(u64::MAX);
        spend(u64::MAX);
    }

    #[test]
    fn time_ends_the_work_of_the_input_not_of_a_question() {
        let past = Deadline::after(Duration::ZERO);
        let late = Deadline::after(Duration::from_secs(3600));
        assert_eq!(until(past.clone(), forever), Err(TimeOver));
        assert_eq!(until(past.clone(), || within(u64::MAX, forever)), Err(TimeOver));
        assert_eq!(until(late.clone(), || within(100, forever)), Ok(Err(TooManySteps { steps: 100 })));
        assert_eq!(until(late, || within(1 << 20, forever)), Ok(Err(TooManySteps { steps: 1 << 20 })));
        let stop = Arc::new(AtomicBool::new(true));
        assert_eq!(until(Deadline::NEVER.or_when(stop), forever), Err(TimeOver));
        assert_eq!(within(10, || until(Deadline::NEVER, forever)), Err(TooManySteps { steps: 10 }));
        assert!(deadline().left().is_none(), "nothing is left behind");
        assert_eq!(until(past, deadline).map(|deadline| deadline.left()), Ok(Some(Duration::ZERO)));
    }

    #[test]
    fn readers_look_at_the_clock_and_take_no_steps() {
        let read = |n: u64| move || (0..n).inspect(|_| tick()).count();
        assert_eq!(within(1, read(20_000)), Ok(20_000));
        assert_eq!(until(Deadline::after(Duration::ZERO), read(20_000)), Err(TimeOver));
    }

    #[test]
    fn threads_that_work_for_another_end_with_it() {
        let ended = until(Deadline::after(Duration::ZERO), || {
            let deadline = deadline();
            std::thread::scope(|scope| {
                let working = scope.spawn(|| under(&deadline, forever));
                working.join().unwrap_or_else(|why| panic::resume_unwind(why))
            })
        });
        assert_eq!(ended, Err(TimeOver));
    }

    #[test]
    fn other_panics_go_on() {
        let caught = panic::catch_unwind(|| within(1, || panic::resume_unwind(Box::new("other"))));
        assert_eq!(caught.map(|_: Result<(), _>| ()).unwrap_err().downcast_ref::<&str>(), Some(&"other"));
    }
}
