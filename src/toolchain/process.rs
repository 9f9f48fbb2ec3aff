//! Child processes that cannot deadlock, outlive their time or leave something behind.
//!
//! A child gets its own process group, so that whatever it starts ends with it; its output goes through one pipe that a
//! thread drains to the end whatever the size. Its exit is seen without reaping it (`WNOWAIT`): until the group has been
//! cleared the process id cannot belong to anybody else.

use std::io::{self, PipeReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::guard;
use crate::files;

/// How much output is kept of a program that has little to say; 944 kernels make ptxas print half a megabyte.
pub(super) const KEEP_BYTES: usize = 64 << 20;
/// How much output is read before the child is taken for mad and stopped.
const FLOOD_BYTES: u64 = 1 << 30;
/// How long after its end a child's output is waited for: something that left the process group may hold the pipe open.
const DRAIN: Duration = Duration::from_secs(2);

/// How a child ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub status: ExitStatus,
    /// Standard output and standard error, as they came.
    pub output: String,
    /// What is not in `output` because it was too much.
    pub cut_bytes: u64,
    /// Why it was stopped, if it was.
    pub stopped: Option<Stopped>,
    pub elapsed: Duration,
}

/// Why a child did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    TimedOut,
    Flooded,
}

/// A child that runs.
pub(super) struct Running {
    child: Child,
    group: Group,
    events: Receiver<Event>,
    captured: Arc<Mutex<Captured>>,
    started: Instant,
}

enum Event {
    /// Only told where a child can be waited for without reaping it.
    #[cfg_attr(not(unix), expect(dead_code))]
    Exited,
    Flooded,
    Drained,
}

#[derive(Default)]
struct Captured {
    head: Vec<u8>,
    cut_bytes: u64,
    /// Why the rest is not here.
    error: Option<io::Error>,
}

/// Starts a child with its input closed and up to `keep` bytes of its output captured.
pub(super) fn start(command: &mut Command, keep: usize) -> io::Result<Running> {
    let (reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let started = Instant::now();
    let spawned = Group::spawn(command);
    // The command holds the pipe's writing ends until they are replaced; the end of the output would never be seen.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (child, group) = spawned?;
    let (sender, events) = mpsc::channel();
    let captured = Arc::new(Mutex::new(Captured::default()));
    #[cfg(unix)]
    {
        let sender = sender.clone();
        let id = child.id();
        thread("wait", move || {
            wait_without_reaping(id);
            let _ = sender.send(Event::Exited);
        })?;
    }
    let kept = Arc::clone(&captured);
    thread("drain", move || {
        drain(reader, keep, &kept, || drop(sender.send(Event::Flooded)));
        let _ = sender.send(Event::Drained);
    })?;
    Ok(Running { child, group, events, captured, started })
}

/// A thread of its own; an error where the system has none left.
fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| io::Error::new(error.kind(), format!("no thread can be started: {error}")))
}

/// A file that was written a moment ago may still be open for writing in a child that another thread is just forking;
/// the system then says "text file busy", and a moment later it no longer does.
fn spawn(command: &mut Command) -> io::Result<Child> {
    for _ in 0..20 {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
    command.spawn()
}

impl Running {
    /// Waits for the end. `tick` is shown the output so far about ten times a second.
    pub(super) fn finish(mut self, timeout: Option<Duration>, tick: &mut dyn FnMut(&[u8])) -> io::Result<Ended> {
        let deadline = timeout.map(|timeout| self.started + timeout);
        let stopped = self.wait(deadline, tick)?;
        let elapsed = self.started.elapsed();
        self.group.kill();
        // From here on the number may become somebody else's.
        guard::ended(self.group.id);
        let status = self.child.wait()?;
        self.group.forget();
        self.wait_for_output();
        let captured = std::mem::take(&mut *lock(&self.captured));
        if let Some(error) = captured.error {
            return Err(io::Error::new(error.kind(), format!("its output cannot be read: {error}")));
        }
        let output = String::from_utf8_lossy(&captured.head).into_owned();
        Ok(Ended { status, output, cut_bytes: captured.cut_bytes, stopped, elapsed })
    }

    /// Returns when the child has exited, or has been killed for the reason given.
    fn wait(&mut self, deadline: Option<Instant>, tick: &mut dyn FnMut(&[u8])) -> io::Result<Option<Stopped>> {
        let mut stopped = None;
        loop {
            // Windows has no way here to wait for two things at once.
            let step = Duration::from_millis(if cfg!(unix) { 100 } else { 2 });
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let mut kill = |why: Stopped| -> io::Result<()> {
                if stopped.is_none() {
                    stopped = Some(why);
                    self.group.kill();
                    self.child.kill()?;
                }
                Ok(())
            };
            match self.events.recv_timeout(left.map_or(step, |left| left.min(step))) {
                Ok(Event::Exited) => return Ok(stopped),
                Ok(Event::Flooded) => kill(Stopped::Flooded)?,
                Ok(Event::Drained) => {}
                Err(RecvTimeoutError::Timeout) => tick(&lock(&self.captured).head),
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(Duration::from_millis(1)),
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                kill(Stopped::TimedOut)?;
            }
            if cfg!(not(unix)) && self.child.try_wait()?.is_some() {
                return Ok(stopped);
            }
        }
    }

    /// The reader's thread ends when it has sent its last event and dropped its end of the channel.
    fn wait_for_output(&self) {
        let until = Instant::now() + DRAIN;
        while self.events.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok() {}
    }
}

/// Starts a child and waits for its end.
pub(super) fn supervise(
    command: &mut Command,
    timeout: Option<Duration>,
    tick: &mut dyn FnMut(&[u8]),
) -> io::Result<Ended> {
    start(command, KEEP_BYTES)?.finish(timeout, tick)
}

fn drain(mut reader: PipeReader, keep: usize, captured: &Mutex<Captured>, flooded: impl Fn()) {
    let mut buffer = vec![0; 64 << 10];
    let mut told = false;
    loop {
        let read = match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                lock(captured).error = Some(error);
                return;
            }
        };
        let mut captured = lock(captured);
        let room = keep.saturating_sub(captured.head.len()).min(read);
        captured.head.extend_from_slice(&buffer[..room]);
        captured.cut_bytes = captured.cut_bytes.saturating_add((read - room) as u64);
        if !told && captured.cut_bytes > FLOOD_BYTES {
            told = true;
            flooded();
        }
    }
}

#[cfg(unix)]
fn wait_without_reaping(id: u32) {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let Some(pid) = pid(id) else { return };
    while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {}
}

#[cfg(unix)]
fn pid(id: u32) -> Option<rustix::process::Pid> {
    i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw)
}

pub(super) fn kill_group(id: u32) {
    #[cfg(unix)]
    if let Some(pid) = pid(id) {
        // Nobody is left to kill in the common case, and that is an error to kill(2).
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = id;
}

/// The process groups that have to go if this process is told to end.
static LIVE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process group that is killed when this value goes away.
struct Group {
    id: u32,
    alive: bool,
}

impl Group {
    /// Starts a child that leads a group. A signal that comes meanwhile waits until the group is known.
    fn spawn(command: &mut Command) -> io::Result<(Child, Group)> {
        guard::prepare();
        let mut live = lock(&LIVE);
        let child = spawn(command)?;
        let id = child.id();
        live.push(id);
        guard::started(id);
        Ok((child, Group { id, alive: true }))
    }

    fn kill(&self) {
        if self.alive {
            kill_group(self.id);
        }
    }

    /// Its leader has been reaped: the number may soon be somebody else's.
    fn forget(&mut self) {
        if self.alive {
            self.alive = false;
            lock(&LIVE).retain(|&id| id != self.id);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.alive {
            self.kill();
            guard::ended(self.id);
        }
        self.forget();
    }
}

/// From now on SIGINT, SIGTERM and SIGHUP stop what was started and remove what was made before they end the program
/// as they always do; one that was being ignored (`nohup`) stays so. For the program's `main`: a library in somebody
/// else's process leaves signals alone.
pub fn remove_leftovers_on_signals() -> io::Result<()> {
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let ignored = ignored_signals();
        let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let mut signals = signal_hook::iterator::Signals::new(wanted)?;
        thread("signals", move || {
            for signal in signals.forever() {
                let groups = lock(&LIVE);
                groups.iter().for_each(|&group| kill_group(group));
                let _folders = files::remove_all();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        })?;
    }
    Ok(())
}

/// `SigIgn` of `/proc/self/status`, where bit n-1 is signal n. Where there is no such file, none.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
