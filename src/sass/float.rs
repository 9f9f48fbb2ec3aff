//! Floats as nvdisasm spells them: C's `%.20g`, `%.20e` when large, `+INF `, `-QNAN `, `-0.0 `.

use std::fmt::Write;

/// The value of the bits of an IEEE half.
pub fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f64::from(bits & 0x3ff);
    match exponent {
        0 => sign * fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// Writes a float; `nan` says whether it is a quiet (`Some(true)`) or a signalling NaN.
pub fn spell_float(value: f64, nan: Option<bool>, negative: bool, out: &mut String) {
    let sign = if negative { '-' } else { '+' };
    if let Some(quiet) = nan {
        out.push(sign);
        out.push_str(if quiet { "QNAN " } else { "SNAN " });
        return;
    }
    if value.is_infinite() {
        out.push(sign);
        out.push_str("INF ");
        return;
    }
    if value == 0.0 {
        out.push_str(if negative { "-0.0 " } else { "0" });
        return;
    }
    if value.abs() >= 1e9 {
        // From a thousand million on: `%.20e`.
        let digits = format!("{value:.20e}");
        let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let _ = write!(out, "{mantissa}e+{exponent:02}");
        return;
    }
    // Integers are nearly all the floats in real code.
    if value == value.trunc() {
        let _ = write!(out, "{}", value as i64);
        return;
    }
    spell_general(value, out);
}

fn spell_general(value: f64, out: &mut String) {
    let digits = format!("{value:.19e}");
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..20).contains(&exponent) {
        // The same twenty digits, with the point elsewhere.
        let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |mantissa| ("-", mantissa));
        let digits = mantissa.replace('.', "");
        out.push_str(sign);
        match usize::try_from(exponent) {
            Ok(exponent) => {
                let (whole, fraction) = digits.split_at((exponent + 1).min(digits.len()));
                out.push_str(trim_zeros(&format!("{whole}.{fraction}")));
            }
            Err(_) => {
                let zeros = &"0000"[..exponent.unsigned_abs() as usize - 1];
                out.push_str(trim_zeros(&format!("0.{zeros}{digits}")));
            }
        }
    } else {
        out.push_str(trim_zeros(mantissa));
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "e{sign}{:02}", exponent.abs());
    }
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(value: f64) -> String {
        let mut out = String::new();
        spell_float(value, None, value.is_sign_negative(), &mut out);
        out
    }

    #[test]
    fn as_printf_would() {
        assert_eq!(spelled(1.0), "1");
        assert_eq!(spelled(-0.0), "-0.0 ");
        assert_eq!(spelled(999_999_936.0), "999999936");
        assert_eq!(spelled(1e9), "1.00000000000000000000e+09");
        assert_eq!(spelled(f64::from(0.1f32)), "0.10000000149011611938");
        assert_eq!(spelled(f64::from(1e-10f32)), "1.00000001335143196e-10");
        assert_eq!(spelled(f64::from(f32::MAX)), "3.40282346638528859812e+38");
        assert_eq!(spelled(f64::NEG_INFINITY), "-INF ");
    }

    #[test]
    fn halves() {
        assert_eq!(half(0x3c00), 1.0);
        assert_eq!(half(0xc000), -2.0);
        assert_eq!(half(0x0001), 2f64.powi(-24));
    }
}
