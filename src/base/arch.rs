//! GPU architectures as users and ptxas spell them: `sm_90a`, `sm_100f`, `sm_75`.

use std::fmt;
use std::str::FromStr;

/// The suffix of an architecture name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// Plain `sm_90`: forward compatible.
    #[default]
    Base,
    /// `sm_100f`: features shared by a family.
    Family,
    /// `sm_90a`: features of this very architecture.
    Accelerated,
}

/// A GPU architecture: the SM number and its variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arch {
    /// 75 for `sm_75`, 100 for `sm_100a`.
    pub sm: u16,
    /// `a`, `f`, or neither.
    pub variant: Variant,
}

impl Arch {
    /// The plain architecture with this SM number.
    pub const fn new(sm: u16) -> Self {
        Arch { sm, variant: Variant::Base }
    }

    /// The same SM number with another suffix.
    pub const fn with_variant(self, variant: Variant) -> Self {
        Arch { sm: self.sm, variant }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.variant {
            Variant::Base => "",
            Variant::Family => "f",
            Variant::Accelerated => "a",
        };
        write!(f, "sm_{}{suffix}", self.sm)
    }
}

/// A string that is not an architecture name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{found}' is not an architecture: expected sm_NN with an optional a or f, such as sm_90a or sm_120")]
pub struct ArchError {
    /// What was given.
    pub found: String,
}

impl FromStr for Arch {
    type Err = ArchError;

    /// Takes `sm_90a` and, for convenience, `90a`, `sm90a`, `SM90a` and `compute_90a`.
    fn from_str(text: &str) -> Result<Self, ArchError> {
        let error = || ArchError { found: text.to_owned() };
        let lower = text.to_ascii_lowercase();
        let rest = ["sm_", "compute_", "sm"].iter().find_map(|p| lower.strip_prefix(p)).unwrap_or(&lower);
        let (digits, variant) = match rest.as_bytes().last() {
            Some(b'a') => (&rest[..rest.len() - 1], Variant::Accelerated),
            Some(b'f') => (&rest[..rest.len() - 1], Variant::Family),
            _ => (rest, Variant::Base),
        };
        let plausible = (2..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        if !plausible || digits.starts_with('0') {
            return Err(error());
        }
        Ok(Arch { sm: digits.parse().map_err(|_| error())?, variant })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        for (text, shown) in [
            ("sm_90a", "sm_90a"),
            ("90a", "sm_90a"),
            ("SM100f", "sm_100f"),
            ("compute_75", "sm_75"),
            ("sm_121", "sm_121"),
        ] {
            assert_eq!(text.parse::<Arch>().unwrap().to_string(), shown, "{text}");
        }
        for text in ["", "sm_", "sm_9", "sm_1000", "sm_090", "sm_90b", "gfx90a", "sm_９０", "a"] {
            assert!(text.parse::<Arch>().is_err(), "{text}");
        }
    }
}
