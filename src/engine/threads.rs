//! The threads that work runs on: as many as are wanted and the system gives.

use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Threads to work on.
pub enum Pool {
    /// Threads of its own.
    Started(ThreadPool),
    /// The thread that asks, which is one of a pool.
    Here,
}

/// One thread a core, started by whoever asks first, for as long as the process lives; none where the system gives no threads.
///
/// A process that was forked, as Python's `multiprocessing` does it, has none of its parent's threads: it starts its own.
pub fn lasting() -> Option<&'static Pool> {
    static POOL: Mutex<Option<(u32, &'static Pool)>> = Mutex::new(None);
    let mut started = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, pool)) = started.filter(|(process, _)| *process == std::process::id()) {
        return Some(pool);
    }
    let pool = ThreadPoolBuilder::new().build().ok()?;
    let pool: &Pool = Box::leak(Box::new(Pool::Started(pool)));
    *started = Some((std::process::id(), pool));
    Some(pool)
}

impl Pool {
    /// As many threads as wanted (0: one a core). Where the system does not give so many, fewer; in the end the one that asks does
    /// the work: slower, and with the same result.
    pub fn start(wanted: usize) -> Pool {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let mut count = if wanted == 0 { cores() } else { wanted };
        while count > 0 {
            if let Ok(pool) = ThreadPoolBuilder::new().num_threads(count).build() {
                return Pool::Started(pool);
            }
            count /= 2;
        }
        // Without a pool around it parallel work would start rayon's own threads, and panic where it cannot. The thread stays a
        // pool of one from now on; that it already is one is the only other way this can end.
        if let Ok(pool) = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build() {
            std::mem::forget(pool);
        }
        Pool::Here
    }

    /// Runs something on the threads and waits for it.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match self {
            Pool::Started(pool) => pool.install(work),
            Pool::Here => work(),
        }
    }

    /// Runs `produce` on the threads while this one runs `consume`; before it, where no thread can be had.
    pub fn install_beside<T>(&self, produce: impl FnOnce() + Send, consume: impl FnOnce() -> T) -> T {
        let pool = match self {
            Pool::Started(pool) => pool,
            Pool::Here => {
                produce();
                return consume();
            }
        };
        // A thread that does not start drops what it was to run: it is kept where it can be taken back from.
        let produce = Mutex::new(Some(produce));
        let run = || {
            let produce = produce.lock().unwrap_or_else(PoisonError::into_inner).take();
            produce.into_iter().for_each(|produce| pool.install(produce));
        };
        std::thread::scope(|scope| {
            if Builder::new().spawn_scoped(scope, run).is_err() {
                run();
            }
            consume()
        })
    }
}
