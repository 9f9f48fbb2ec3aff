//! Numbers as people read them.

pub use crate::base::figures::thousands;

/// Bytes: exact below 10 KiB, rounded above.
pub fn bytes(number: u64) -> String {
    const KIB: f64 = 1024.0;
    let value = number as f64;
    if number < 10 * 1024 {
        format!("{} B", thousands(number))
    } else if value < KIB * KIB {
        format!("{:.1} KiB", value / KIB)
    } else {
        format!("{:.1} MiB", value / KIB / KIB)
    }
}

/// `1 thing`, `2 things`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// `3 kernels`; `12 kernels and device functions` where some of them are those.
pub fn kernels_and_functions(kernels: u64, functions: u64) -> String {
    match functions {
        0 => count(kernels, "kernel"),
        _ => format!("{} kernels and device functions", thousands(kernels + functions)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        assert_eq!(bytes(10_239), "10,239 B");
        assert_eq!(bytes(10_240), "10.0 KiB");
        assert_eq!(bytes(3 << 20), "3.0 MiB");
        assert_eq!(count(1, "block"), "1 block");
        assert_eq!(kernels_and_functions(1, 0), "1 kernel");
        assert_eq!(kernels_and_functions(3, 6), "9 kernels and device functions");
    }
}
