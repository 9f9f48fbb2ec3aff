//! Choosing kernels by name.

use std::collections::BTreeSet;
use std::str::Chars;

use crate::base::spelling::distance;
use crate::ptx;
use crate::report::{Unit, shorten};

/// Patterns with `*` and `?`; none of them means everything.
pub struct Globs {
    patterns: Vec<Vec<char>>,
}

impl Globs {
    /// Reads the patterns as the user wrote them.
    pub fn new(globs: &[String]) -> Self {
        Globs { patterns: globs.iter().map(|glob| glob.chars().collect()).collect() }
    }

    /// Whether any of the names matches.
    pub fn matches<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> bool {
        let is_covered = |name: &str| self.patterns.iter().any(|pattern| covers(pattern, name));
        self.patterns.is_empty() || names.into_iter().any(|name| spellings(name).any(is_covered))
    }

    /// Whether everything matches because nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}

/// A name as the front end spells it, and as people do: `void ns::softmax<float, 128>(float*)` is also `ns::softmax<float, 128>(float*)`,
/// `ns::softmax<float, 128>`, `ns::softmax` and `softmax`.
fn spellings(name: &str) -> impl Iterator<Item = &str> {
    let end = parameters(name).unwrap_or(name.len());
    let bare = name.get(..end).unwrap_or(name);
    let start = if end == name.len() {
        0
    } else {
        outside_brackets(bare).filter(|(_, c)| *c == ' ').last().map_or(0, |(at, _)| at + 1)
    };
    let called = name.get(start..).unwrap_or(name);
    let bare = name.get(start..end).unwrap_or(name);
    let head = bare.get(..bare.find('<').unwrap_or(bare.len())).unwrap_or(bare);
    let last = head.rsplit("::").next().unwrap_or(head);
    [name, called, bare, head, last].into_iter()
}

/// Where the parameters of a name start, if it ends with some.
fn parameters(name: &str) -> Option<usize> {
    let mut open = 0usize;
    for (at, c) in name.strip_suffix(')').map(|_| name)?.char_indices().rev() {
        match c {
            ')' => open += 1,
            '(' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

/// The characters of a name that no bracket holds.
fn outside_brackets(name: &str) -> impl Iterator<Item = (usize, char)> {
    let mut open = 0usize;
    name.char_indices().filter(move |(_, c)| {
        match c {
            '<' | '(' | '[' => open += 1,
            '>' | ')' | ']' => open = open.saturating_sub(1),
            _ => {}
        }
        open == 0
    })
}

/// Whether a pattern covers all of a name: at a star as little as possible, more where that turns out to be too little.
fn covers(pattern: &[char], name: &str) -> bool {
    let mut rest = name.chars();
    let mut at = 0;
    let mut star: Option<(usize, Chars<'_>)> = None;
    loop {
        let before = rest.clone();
        match (pattern.get(at), rest.next()) {
            (Some('*'), _) => {
                at += 1;
                star = Some((at, before.clone()));
                rest = before;
            }
            (Some('?'), Some(_)) => at += 1,
            (Some(wanted), Some(found)) if *wanted == found => at += 1,
            (None, None) => return true,
            _ => {
                let Some((behind, covered)) = &mut star else { return false };
                if covered.next().is_none() {
                    return false;
                }
                at = *behind;
                rest = covered.clone();
            }
        }
    }
}

/// The kernel that was meant, as far as its spelling tells, and how many others there are.
pub fn nearest(asked: &[String], names: &[&str]) -> String {
    const LOOKED_AT: usize = 1000;
    let close =
        names.iter().take(LOOKED_AT).flat_map(|name| asked.iter().map(move |asked| (distance(asked, name), name)));
    let Some((_, name)) = close.min_by_key(|(distance, _)| *distance) else { return "it has none".to_owned() };
    let name = shorten(name, 100);
    match names.len() {
        1 => format!("it has {name}"),
        count => format!("the nearest of its {count} is {name}"),
    }
}

/// What the PTX of units has instead of a kernel that was asked for.
pub fn nearest_of(asked: &[String], units: &[Unit]) -> String {
    let modules: Vec<ptx::Module<'_>> = units.iter().map(|unit| ptx::parse(unit.ptx.text())).collect();
    let functions = modules.iter().flat_map(ptx::Module::functions);
    let names: BTreeSet<&str> =
        functions.filter(ptx::Function::is_definition).map(|function| function.name()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { String::new() } else { format!("; {}", nearest(asked, &names)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_kernel_is_named() {
        assert_eq!(nearest(&["gem".to_owned()], &["softmax", "gemm"]), "the nearest of its 2 is gemm");
        assert_eq!(nearest(&["x".to_owned()], &["gemm"]), "it has gemm");
    }

    #[test]
    fn stars_and_question_marks() {
        let globs = Globs::new(&["gemm_*".to_owned(), "a?c".to_owned()]);
        assert!(globs.matches(["gemm_f16"]) && globs.matches(["x", "abc"]));
        assert!(!globs.matches(["my_gemm_f16"]) && !globs.matches(["abbc"]));
        assert!(Globs::new(&[]).matches(["anything"]));
        let covers = |pattern: &str, name: &str| Globs::new(&[pattern.to_owned()]).matches([name]);
        assert!(covers("*ab*ab", "abxabab") && covers("*", "") && covers("a*\u{e4}?", "ax\u{e4}\n") && covers("", ""));
        assert!(!covers("*ab", "abx") && !covers("?", "") && !covers("a", "A") && !covers("*a*b", "b a"));
        assert!(Globs::new(&["f(int*)".to_owned()]).matches(["f(int, int)"]));
    }

    #[test]
    fn a_kernel_is_known_by_its_bare_name() {
        let matches = |pattern: &str, name: &str| Globs::new(&[pattern.to_owned()]).matches([name]);
        let name = "void ns::softmax<float, (int)128>(float const*, void (*)(int))";
        for asked in ["softmax", "ns::softmax", "soft*", "ns::softmax<float, *", "ns::softmax<float, (int)128>"] {
            assert!(matches(asked, name), "{asked}");
        }
        for asked in ["void", "float", "ns", "max", "softmax<float"] {
            assert!(!matches(asked, name), "{asked}");
        }
        assert!(matches("k", "k") && matches("f", "f()") && !matches("f", ")f(") && !matches("x", "((("));
    }
}
