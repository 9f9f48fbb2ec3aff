//! Memory that was freed, given back to the system.

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
