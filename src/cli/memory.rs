//! Memory that the system does not have, or no longer.

/// Rust says `memory allocation of 4096 bytes failed` and aborts, which a caller takes for a crash: from now on the program ends with
/// this status instead.
pub fn exit_where_there_is_none(status: u8) {
    #[cfg(unix)]
    {
        use std::sync::{Arc, atomic::AtomicBool};
        let always = Arc::new(AtomicBool::new(true));
        let abort = signal_hook::consts::SIGABRT;
        // Without it the program ends all the same, only less politely.
        let _ = signal_hook::flag::register_conditional_shutdown(abort, i32::from(status), always);
    }
    #[cfg(not(unix))]
    let _ = status;
}

/// A mapped file that somebody cuts short meanwhile is memory that is not there any more: SIGBUS. From now on that is an error that is
/// said, and the program ends with this status.
pub fn exit_where_a_file_shrinks(status: u8) {
    #[cfg(unix)]
    {
        let end = move || {
            let said = b"error: an input became shorter while it was read: run it again once nobody writes to it\n";
            let _ = rustix::io::write(rustix::stdio::stderr(), said);
            signal_hook::low_level::exit(i32::from(status));
        };
        // SAFETY: write and _exit are all that the handler calls, and both may be called from one. It allocates and locks nothing.
        #[allow(unsafe_code)]
        let _ = unsafe { signal_hook::low_level::register(signal_hook::consts::SIGBUS, end) };
    }
    #[cfg(not(unix))]
    let _ = status;
}
