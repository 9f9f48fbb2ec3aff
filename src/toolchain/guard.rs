//! What this process started ends with it, even when it is killed outright.
//!
//! A signal that can be caught is caught ([`remove_leftovers_on_signals`](super::remove_leftovers_on_signals)); SIGKILL cannot. So
//! the program runs itself once more as a guard, which reads which process groups are at work from a pipe. The system closes the
//! pipe when this process ends, however it ends; the guard then kills the groups that are left, and ends too. Other ways fall
//! short: the kernel's signal at a parent's death must be asked for between fork and exec, and reaches the child alone, not what
//! the child has started.
//!
//! A line of the pipe: `+N`, group N was started; `-N`, its leader is about to be reaped, and the number to be anybody's.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use super::process::kill_group;

/// On Linux the program that runs, even where its file has been replaced meanwhile.
pub const ITSELF: &str = "/proc/self/exe";

/// How to start a guard: it is started with the first process that it has to guard.
static HOW: Mutex<Option<(PathBuf, Vec<OsString>)>> = Mutex::new(None);
static GUARD: Mutex<Option<Guard>> = Mutex::new(None);

struct Guard {
    /// None once it was told that nothing more will be started.
    pipe: Option<ChildStdin>,
    child: Child,
}

/// From now on what this module starts has a guard: `program` with `arguments`, which calls [`guard`] on its standard input. For the
/// program's `main`.
pub fn start_guard(program: PathBuf, arguments: Vec<OsString>) {
    *HOW.lock().unwrap_or_else(PoisonError::into_inner) = Some((program, arguments));
}

/// Starts the guard now, on the thread that has the time: what it guards is about to be started on another.
pub fn make_guard_ready() {
    prepare();
}

/// Tells the guard that nothing more will be started: it ends while there is other work to do.
pub fn release_guard() {
    if let Some(guard) = GUARD.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        guard.pipe = None;
    }
}

/// Sends the guard away: at the end of `main`, so that nobody else has to bury it.
pub fn dismiss_guard() {
    HOW.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Guard { pipe, mut child }) = GUARD.lock().unwrap_or_else(PoisonError::into_inner).take() {
        drop(pipe);
        let _ = child.wait();
    }
}

/// The guard itself: reads until the pipe's writer is gone, then kills what is left.
pub fn guard(pipe: impl BufRead) {
    let mut groups = BTreeSet::new();
    for line in pipe.lines() {
        let Ok(line) = line else { break };
        match (line.get(..1), line.get(1..).and_then(|number| number.parse::<u32>().ok())) {
            (Some("+"), Some(group)) => drop(groups.insert(group)),
            (Some("-"), Some(group)) => drop(groups.remove(&group)),
            _ => {}
        }
    }
    groups.into_iter().for_each(kill_group);
}

/// Something is about to be started: the guard has to be there first. Best effort: without a guard there is only the one signal
/// that cannot be caught to fear.
pub(super) fn prepare() {
    let mut guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    if guard.as_ref().is_some_and(|guard| guard.pipe.is_some()) {
        return;
    }
    // One that was released is on its way out.
    if let Some(mut released) = guard.take() {
        let _ = released.child.wait();
    }
    if let Some((program, arguments)) = HOW.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
        *guard = start(Command::new(program).args(arguments)).ok();
    }
}

/// A group was started.
pub(super) fn started(group: u32) {
    tell(GUARD.lock().unwrap_or_else(PoisonError::into_inner).as_mut(), '+', group);
}

/// The leader of a group is about to be reaped.
pub(super) fn ended(group: u32) {
    tell(GUARD.lock().unwrap_or_else(PoisonError::into_inner).as_mut(), '-', group);
}

fn tell(guard: Option<&mut Guard>, what: char, group: u32) {
    if let Some(pipe) = guard.and_then(|guard| guard.pipe.as_mut()) {
        let _ = pipe.write_all(format!("{what}{group}\n").as_bytes());
    }
}

fn start(command: &mut Command) -> io::Result<Guard> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // What is meant for the program's group (^C, a shell's kill) is not meant for its guard.
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        command.process_group(0);
        // Its path says nothing; of any other program the name may decide how it runs.
        if command.get_program() == ITSELF {
            command.arg0("ptxinspect");
        }
    }
    let mut child = command.spawn()?;
    match child.stdin.take() {
        Some(pipe) => Ok(Guard { pipe: Some(pipe), child }),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    }
}
