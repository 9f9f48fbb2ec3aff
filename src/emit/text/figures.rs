//! Numbers as people read them.

/// 12345 as `12,345`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(bytes(10_239), "10,239 B");
        assert_eq!(bytes(10_240), "10.0 KiB");
        assert_eq!(bytes(3 << 20), "3.0 MiB");
        assert_eq!(count(1, "block"), "1 block");
    }
}
