//! Progress on standard error: only on a terminal, only when it takes long.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::engine::progress as engine;

/// Work that takes less than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(400);
/// How often it is drawn.
const STEP: Duration = Duration::from_millis(200);

/// Whether a ptxas is being installed: that has a bar of its own.
static INSTALLS: AtomicBool = AtomicBool::new(false);

/// Says that an installation begins or ends.
pub fn installs(now: bool) {
    INSTALLS.store(now, Ordering::Relaxed);
}

/// A bar over a known number of steps. Drawn by a thread of its own, so that a fast run pays nothing for it.
pub struct Progress {
    bar: Option<ProgressBar>,
    /// Whether it is over before all is done.
    ended: Arc<AtomicBool>,
    done: AtomicU64,
    stop: Option<mpsc::Sender<()>>,
    drawer: Option<JoinHandle<()>>,
}

impl Progress {
    /// Whether there will be a bar.
    fn is_wanted(quiet: bool) -> bool {
        !quiet && std::io::stderr().is_terminal()
    }

    /// A bar for as many steps as the engine says, or none when `quiet` or when standard error is no terminal.
    pub fn new(what: &'static str, quiet: bool) -> Self {
        Progress::styled(what, quiet, "{msg} {wide_bar} {pos}/{len} {elapsed} (eta {eta})")
    }

    /// A bar for bytes that are read, as many as the engine says.
    pub fn of_bytes(quiet: bool) -> Self {
        Progress::styled("reading", quiet, "{msg} {wide_bar} {percent}% of {total_bytes} {elapsed} (eta {eta})")
    }

    fn styled(what: &'static str, quiet: bool, template: &str) -> Self {
        if !Progress::is_wanted(quiet) {
            return Progress { bar: None, ended: Arc::default(), done: AtomicU64::new(0), stop: None, drawer: None };
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        let (stop, stopped) = mpsc::channel::<()>();
        let shown = bar.clone();
        let ended = Arc::<AtomicBool>::default();
        let over = Arc::clone(&ended);
        let waits = move |time| {
            stopped.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout) && !over.load(Ordering::Relaxed)
        };
        let draw = move || {
            if waits(PATIENCE) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                while waits(STEP) {
                    if INSTALLS.load(Ordering::Relaxed) {
                        shown.suspend(|| {
                            while INSTALLS.load(Ordering::Relaxed) {
                                if !waits(STEP) {
                                    break;
                                }
                            }
                        });
                    }
                    shown.tick();
                }
            }
        };
        // Without a thread to draw it there is no bar.
        let drawer = std::thread::Builder::new().spawn(draw).ok();
        Progress { bar: Some(bar), ended, done: AtomicU64::new(0), stop: Some(stop), drawer }
    }

    /// Takes the bar away: from now on something else is written.
    pub fn end(&self) {
        if let Some(bar) = self.bar.as_ref().filter(|_| !self.ended.swap(true, Ordering::Relaxed)) {
            bar.finish_and_clear();
        }
    }
}

impl engine::Progress for Progress {
    fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    fn expect(&self, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            // Nobody knows how far a single step is.
            if let (1, Ok(style)) = (total, ProgressStyle::with_template("{spinner} {msg} {elapsed}")) {
                bar.set_style(style);
            }
        }
    }

    fn advance(&self, steps: u64) {
        let done = self.done.fetch_add(steps, Ordering::Relaxed).saturating_add(steps);
        if let Some(bar) = self.bar.as_ref().filter(|_| !self.ended.load(Ordering::Relaxed)) {
            bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(drawer) = self.drawer.take() {
            let _ = drawer.join();
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
