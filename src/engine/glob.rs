//! Choosing kernels by name.

use anyhow::{Context, Result};
use regex::{Regex, RegexBuilder};

/// Patterns with `*` and `?`; none of them means everything.
pub struct Globs {
    patterns: Vec<Regex>,
}

impl Globs {
    /// Reads the patterns as the user wrote them.
    pub fn new(globs: &[String]) -> Result<Self> {
        let patterns = globs.iter().map(|glob| compile(glob)).collect::<Result<_>>()?;
        Ok(Globs { patterns })
    }

    /// Whether any of the names matches.
    pub fn matches<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> bool {
        self.patterns.is_empty() || names.into_iter().any(|name| self.patterns.iter().any(|p| p.is_match(name)))
    }

    /// Whether everything matches because nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}

fn compile(glob: &str) -> Result<Regex> {
    let mut pattern = String::from("^");
    for c in glob.chars() {
        match c {
            '*' => pattern.push_str(".*"),
            '?' => pattern.push('.'),
            c => pattern.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    pattern.push('$');
    RegexBuilder::new(&pattern)
        .dot_matches_new_line(true)
        .size_limit(1 << 20)
        .build()
        .with_context(|| format!("--kernel '{glob}' is too long a pattern"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        let globs = Globs::new(&["gemm_*".to_owned(), "a?c".to_owned()]).unwrap();
        assert!(globs.matches(["gemm_f16"]) && globs.matches(["x", "abc"]));
        assert!(!globs.matches(["my_gemm_f16"]) && !globs.matches(["abbc"]));
        assert!(Globs::new(&[]).unwrap().matches(["anything"]));
        assert!(Globs::new(&["f(int*)".to_owned()]).unwrap().matches(["f(int, int)"]));
    }
}
