//! Names as their language spells them.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// A mangled name can unfold exponentially; past this many bytes it stays as it is.
const LIMIT: usize = 1 << 16;

/// A string that refuses to grow past [`LIMIT`].
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LIMIT {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// The demangled name, or none when the name is not mangled, or not in a way we know.
pub fn demangle(name: &str) -> Option<String> {
    if name.starts_with("_Z") {
        if let Ok(rust) = rustc_demangle::try_demangle(name) {
            return bounded(format_args!("{rust:#}"));
        }
        let options = ParseOptions::default().recursion_limit(96);
        let symbol = Symbol::new_with_options(name, &options).ok()?;
        let mut text = Bounded(String::new());
        symbol.structured_demangle(&mut text, &DemangleOptions::default().recursion_limit(96)).ok()?;
        return Some(text.0);
    }
    if name.starts_with("_R") {
        let rust = rustc_demangle::try_demangle(name).ok()?;
        return bounded(format_args!("{rust:#}"));
    }
    None
}

fn bounded(text: fmt::Arguments<'_>) -> Option<String> {
    let mut out = Bounded(String::new());
    out.write_fmt(text).ok()?;
    Some(out.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages() {
        assert_eq!(demangle("_Z5saxpyifPfS_").as_deref(), Some("saxpy(int, float, float*, float*)"));
        assert_eq!(demangle("_RNvC6_123foo3bar").as_deref(), Some("123foo::bar"));
        assert_eq!(demangle("_ZN4core3fmt5write17h0123456789abcdefE").as_deref(), Some("core::fmt::write"));
        assert_eq!(demangle("matmul_kernel"), None);
        assert_eq!(demangle("_Z"), None);
    }

    #[test]
    fn a_name_that_explodes_stays_mangled() {
        let mut name = "_Z1fI1A".to_owned();
        for depth in 0..40 {
            name.push_str(&format!("S{}_S{}_", to36(depth), to36(depth)));
        }
        name.push_str("Ev");
        assert!(demangle(&name).is_none_or(|text| text.len() <= LIMIT));
    }

    fn to36(number: usize) -> String {
        let digit = |n: usize| char::from_digit(n as u32, 36).unwrap().to_ascii_uppercase();
        if number < 36 { digit(number).to_string() } else { format!("{}{}", digit(number / 36), digit(number % 36)) }
    }
}
