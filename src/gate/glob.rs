//! Patterns over names.

use std::fmt;

/// A pattern with `*` and `?`, over a whole name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// Takes a pattern; every text is one.
    pub fn new(pattern: impl Into<String>) -> Self {
        Glob(pattern.into())
    }

    /// Whether a name matches. Time is bounded by the product of the lengths: there is no backtracking past the last star.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name): (Vec<char>, Vec<char>) = (self.0.chars().collect(), name.chars().collect());
        let (mut at, mut reached) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while reached < name.len() {
            match (pattern.get(at), name.get(reached)) {
                (Some('*'), _) => {
                    star = Some((at, reached));
                    at += 1;
                }
                (Some(p), Some(n)) if *p == '?' || p == n => {
                    at += 1;
                    reached += 1;
                }
                _ => match &mut star {
                    Some((after, taken)) => {
                        *taken += 1;
                        at = *after + 1;
                        reached = *taken;
                    }
                    None => return false,
                },
            }
        }
        pattern[at.min(pattern.len())..].iter().all(|c| *c == '*')
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn stars_and_question_marks() {
        let is = |pattern: &str, name: &str| Glob::new(pattern).matches(name);
        assert!(is("*", "") && is("*", "x") && is("gemm_*", "gemm_f16") && is("*_f16", "gemm_f16") && is("a?c", "abc"));
        assert!(is("*a*b*", "xxaxxbxx") && is("f(int*)", "f(int, int)") && is("a*a", "aaa"));
        assert!(
            !is("gemm_*", "my_gemm_f16") && !is("a?c", "abbc") && !is("", "x") && !is("a*a", "a") && !is("ab", "a")
        );
    }
}
