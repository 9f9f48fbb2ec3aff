//! Names and other text that fit on a line.

use std::borrow::Cow;

use super::demangle;

/// A C++ name in at most `width` characters: parameters go first, then the result, then template arguments, the most deeply nested ones
/// first, then namespaces, the outermost first; what is left out is `…`.
pub fn abridge(name: &str, width: usize) -> Cow<'_, str> {
    if name.chars().count() <= width {
        return Cow::Borrowed(name);
    }
    let bare = without_parameters(name);
    let bare = without_tags(bare.strip_prefix("void ").unwrap_or(&bare));
    let bare = &*bare;
    // Each level shows at least what the one before did.
    let mut best = to_depth(bare, 0);
    for depth in 1..8 {
        let more = to_depth(bare, depth);
        if more.chars().count() > width {
            break;
        }
        best = more;
    }
    let inner = inner(&best, width);
    Cow::Owned(shorten(inner.as_deref().unwrap_or(&best), width).into_owned())
}

/// The name without as many of its namespaces as it takes to fit, the outermost first; none where it fits, or has none.
fn inner(name: &str, width: usize) -> Option<String> {
    if name.chars().count() <= width {
        return None;
    }
    let mut open = 0;
    let mut shorter = None;
    for (at, c) in name.char_indices() {
        match c {
            // What is left out in brackets is no namespace; an anonymous one is.
            '(' if open == 0 && !name[at..].starts_with("(anonymous") => break,
            '<' | '(' => open += 1,
            '>' | ')' => open -= 1,
            ':' if open == 0 && name[..at].ends_with(':') => {
                let rest = format!("…::{}", &name[at + 1..]);
                let fits = rest.chars().count() <= width;
                shorter = Some(rest);
                if fits {
                    break;
                }
            }
            _ => {}
        }
    }
    shorter
}

/// Names in a sentence: more than this tells a reader no more.
const SPELT: usize = 60;

/// A sentence with its mangled names as their language spells them, abridged: what ptxas says of a kernel names it in a thousand letters.
pub fn spelt(text: &str) -> Cow<'_, str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_$.".contains(c);
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = ["_Z", "_R"].iter().filter_map(|start| rest.find(start)).min() {
        let (before, from) = rest.split_at(at);
        let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        // A full stop ends the sentence.
        let name = word.trim_end_matches('.');
        let is_inside = before.ends_with(is_part);
        out.push_str(before);
        match demangle(name).filter(|_| !is_inside) {
            Some(spelt) => {
                out.push_str(&abridge(&spelt, SPELT));
                out.push_str(&word[name.len()..]);
            }
            None => out.push_str(word),
        }
        rest = after;
    }
    if out.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(out + rest) }
}

/// At most `width` characters, the last of them `…` where something was cut.
pub fn shorten(text: &str, width: usize) -> Cow<'_, str> {
    if text.chars().count() <= width {
        return Cow::Borrowed(text);
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    Cow::Owned(short)
}

/// The name with `(…)` in place of its parameters, where it ends with some.
pub(super) fn without_parameters(name: &str) -> Cow<'_, str> {
    let Some(inside) = name.strip_suffix(')') else { return Cow::Borrowed(name) };
    let mut open = 1;
    for (at, c) in inside.char_indices().rev() {
        match c {
            ')' => open += 1,
            '(' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return if inside[at + 1..].is_empty() {
                Cow::Borrowed(name)
            } else {
                Cow::Owned(format!("{}(…)", &inside[..at]))
            };
        }
    }
    Cow::Borrowed(name)
}

/// The name with `[abi:…]` in place of tags that nobody reads: Numba's say how a kernel was specialised, in letters.
fn without_tags(name: &str) -> Cow<'_, str> {
    const TAG: &str = "[abi:";
    const SHORT: usize = 8;
    let mut out = String::new();
    let mut rest = name;
    while let Some(start) = rest.find(TAG) {
        let (before, tag) = rest.split_at(start + TAG.len());
        let Some(end) = tag.find(']') else { break };
        out.push_str(before);
        out.push_str(if end > SHORT { "…" } else { &tag[..end] });
        rest = &tag[end..];
    }
    if out.is_empty() { Cow::Borrowed(name) } else { Cow::Owned(out + rest) }
}

/// The name with template arguments down to a depth only.
fn to_depth(name: &str, depth: usize) -> String {
    let mut out = String::new();
    let mut at = 0;
    for (position, c) in name.char_indices() {
        // `operator<`, `operator->`, and a comparison in an argument: `(a)->b`.
        let is_bracket = !name[..position].ends_with("operator")
            && !name[..position].ends_with("operator<")
            && !name[..position].ends_with(['-', '=']);
        match c {
            '<' if is_bracket => {
                if at <= depth {
                    out.push('<');
                }
                if at == depth {
                    out.push('…');
                }
                at += 1;
            }
            '>' if is_bracket && at > 0 => {
                at -= 1;
                if at <= depth {
                    out.push('>');
                }
            }
            c if at <= depth => out.push(c),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deepest_goes_first() {
        let name = "void device_kernel<gemm::Universal<tuple<int, int>, Mma<C<2>, float>, void> >(gemm::Params<int>)";
        assert_eq!(abridge(name, 200), name);
        let steps = [
            (80, "device_kernel<gemm::Universal<tuple<int, int>, Mma<C<2>, float>, void> >(…)"),
            (70, "device_kernel<gemm::Universal<tuple<…>, Mma<…>, void> >(…)"),
            (45, "device_kernel<gemm::Universal<…> >(…)"),
            (25, "device_kernel<…>(…)"),
            (10, "device_ke…"),
        ];
        for (width, expected) in steps {
            assert_eq!(abridge(name, width), expected);
        }
    }

    #[test]
    fn namespaces_go_last_and_the_outermost_first() {
        let name = "void cub::CUB_200101_500_520_NS::detail::Kernel<a::Policy, int>(b::Params)";
        let steps = [
            (40, "…::detail::Kernel<…>(…)"),
            (22, "…::Kernel<…>(…)"),
            (10, "…::Kernel…"),
            (45, "cub::CUB_200101_500_520_NS::detail::Kernel<…>(…)"),
        ];
        for (width, expected) in steps {
            let width = if expected.starts_with("cub") { expected.chars().count() } else { width };
            assert_eq!(abridge(name, width), expected);
        }
        assert_eq!(
            abridge("(anonymous namespace)::a::kernel_of_some_length(int)", 33),
            "…::a::kernel_of_some_length(…)"
        );
    }

    #[test]
    fn long_tags_go_first() {
        let name = "__main__::k[abi:v1][abi:cw51cXTLSUwv1sDUaKthqaNgoKmjgMVuW1AiA8rAEg2](Array<float, 1>, int)";
        assert_eq!(abridge(name, 80), "__main__::k[abi:v1][abi:…](…)");
        assert_eq!(abridge("f[abi:unfinished name that goes on and on", 20), "f[abi:unfinished na…");
    }

    #[test]
    fn other_brackets_are_not_arguments() {
        assert_eq!(abridge("bool operator<(some_long_type, int)", 20), "bool operator<(…)");
        assert_eq!(abridge("(anonymous namespace)::kernel(float*)", 34), "(anonymous namespace)::kernel(…)");
        assert_eq!(abridge("a_kernel_whose_name_is_long()", 10), "a_kernel_…");
        assert_eq!(abridge("unbalanced>>)<(((", 12), "unbalanced>…");
    }

    #[test]
    fn sentences_name_what_people_know() {
        let said = |name: &str| format!("wgmma is serialized in the function '{name}' in line 9");
        let mangled = "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIiEEEEvNT_6ParamsE";
        assert_eq!(spelt(&said(mangled)), said("cutlass::device_kernel<…>(…)"));
        assert_eq!(spelt("_ZN7cutlass4smemE+8, and _ZN7cutlass4smemE."), "cutlass::smem+8, and cutlass::smem.");
        for same in ["plain", "a_Zone is full", "_Z is no name", "at _Zzz", ""] {
            assert_eq!(spelt(same), same);
        }
    }

    #[test]
    fn shortening_keeps_the_width() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdefg", 6), "abcde…");
    }
}
