//! What can be denied: a code, a word that stands for several codes, or a figure that is to be zero.

use std::fmt;
use std::str::FromStr;

use super::metric::Metric;
use super::policy::Budget;
use crate::base::codes;
use crate::base::spelling::nearest;

/// Something that `--deny` or `deny = […]` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// One code, of ptxas or of a check.
    Code(&'static str),
    /// `warnings`: whatever is at least a warning.
    Warnings,
    /// `advisories`: every message of ptxas that has a code, and every warning.
    Advisories,
    /// `spills`: bytes or instructions that spill or refill.
    Spills,
    /// `stack`: bytes of stack.
    Stack,
}

/// The words, and what they deny.
const WORDS: [(&str, Denial); 4] = [
    ("warnings", Denial::Warnings),
    ("advisories", Denial::Advisories),
    ("spills", Denial::Spills),
    ("stack", Denial::Stack),
];

impl Denial {
    /// The figures that have to be zero.
    pub fn metrics(self) -> &'static [Metric] {
        match self {
            Denial::Code(_) | Denial::Warnings | Denial::Advisories => &[],
            Denial::Spills => &[Metric::SpillStoreBytes, Metric::SpillLoadBytes, Metric::SpillInstructions],
            Denial::Stack => &[Metric::StackBytes],
        }
    }

    /// The budgets that say the same.
    pub fn budgets(self) -> impl Iterator<Item = Budget> {
        self.metrics().iter().map(|metric| Budget::none_of(*metric))
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = WORDS.iter().find(|(_, denial)| denial == self).map(|(word, _)| *word);
        f.write_str(match self {
            Denial::Code(code) => code,
            _ => word.unwrap_or_default(),
        })
    }
}

impl FromStr for Denial {
    type Err = String;

    fn from_str(text: &str) -> Result<Denial, String> {
        let asked = text.trim();
        if asked.is_empty() {
            return Err("nothing stands before or after a comma: leave the comma out".to_owned());
        }
        let word = WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(asked)).map(|(_, denial)| *denial);
        word.or_else(|| codes::code(asked).map(Denial::Code)).ok_or_else(|| {
            let words: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
            let upper = asked.to_ascii_uppercase();
            let near = nearest(&upper, codes::codes()).unwrap_or_default();
            let near = match nearest(&asked.to_ascii_lowercase(), words.iter().copied()) {
                Some(word) if !upper.bytes().any(|byte| byte.is_ascii_digit()) => word,
                _ => near,
            };
            format!(
                "'{asked}' is not a code: did you mean {near}? Known are {} and the codes that `ptxinspect explain` lists",
                words.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_answered_with_what_is_nearest() {
        assert_eq!("pi203".parse(), Ok(Denial::Code("PI203")));
        assert_eq!(" (C7508) ".parse(), Ok(Denial::Code("C7508")));
        assert_eq!("WARNINGS".parse(), Ok(Denial::Warnings));
        for (asked, near) in
            [("spill", "spills"), ("warning", "warnings"), ("PI299", "PI20"), ("C7580", "C75"), ("bogus", "")]
        {
            let error = asked.parse::<Denial>().unwrap_err();
            assert!(error.contains(&format!("did you mean {near}")), "{error}");
        }
    }

    #[test]
    fn a_word_is_written_as_it_is_read() {
        for (word, denial) in WORDS {
            assert_eq!(denial.to_string(), word);
        }
        assert_eq!(Denial::Code("PI203").to_string(), "PI203");
    }
}
