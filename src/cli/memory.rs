//! Memory that was freed, given back to the system; memory that the system does not have.

/// Gives back what was freed. glibc keeps it for the thread that had it: what the PTX's threads took to evaluate would stay with the
/// thread that did it, while the one that joins takes memory of its own.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[allow(unsafe_code)]
        unsafe extern "C" {
            safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        malloc_trim(0);
    }
}

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
