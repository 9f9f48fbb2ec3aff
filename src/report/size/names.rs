//! What a function is an instance of, and where that is declared: told from its demangled name.

use crate::report::names::without_parameters;

/// The function or function template without result, arguments and parameters: `cutlass::device_kernel` of
/// `void cutlass::device_kernel<Gemm<int> >(Gemm<int>::Params)`.
pub fn template(name: &str) -> String {
    let name = without_parameters(name);
    let name = name.strip_suffix("(…)").or(name.strip_suffix("()")).unwrap_or(&name);
    let mut out = String::new();
    // Angle brackets are left out; spaces outside of all brackets end the result.
    let (mut angles, mut others) = (0_u32, 0_u32);
    let mut word = String::new();
    for c in name.chars() {
        // `operator<`, `operator->`, and a comparison in an argument: `(a)->b`.
        let is_bracket = others == 0 && !word.ends_with("operator") && !word.ends_with(['-', '=']);
        match c {
            '<' if is_bracket => angles += 1,
            '>' if is_bracket && angles > 0 => angles -= 1,
            '(' | '[' | '{' => {
                others += 1;
                if angles == 0 {
                    out.push(c);
                }
            }
            ')' | ']' | '}' => {
                others = others.saturating_sub(1);
                if angles == 0 {
                    out.push(c);
                }
            }
            ' ' if angles == 0 && others == 0 && !word.ends_with("operator") => {
                out.clear();
                word.clear();
                continue;
            }
            c if angles == 0 => out.push(c),
            _ => {}
        }
        if angles == 0 && others == 0 {
            word.push(c);
        }
    }
    if out.is_empty() { name.to_owned() } else { out }
}

/// Everything before the last `::` of a template: a namespace, or a class in one. Nothing for a name that stands alone.
pub fn namespace(template: &str) -> Option<&str> {
    let (mut depth, mut last) = (0_u32, None);
    let bytes = template.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && bytes.get(at + 1) == Some(&b':') => last = Some(at),
            _ => {}
        }
    }
    last.and_then(|at| template.get(..at)).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_real_names() {
        for (name, of, place) in [
            ("void cutlass::Kernel<Gemm<int, (bool)1> >(Gemm<int>::Params)", "cutlass::Kernel", Some("cutlass")),
            ("add(float*, float const*, int)", "add", None),
            (
                "void at::native::(anonymous namespace)::run<int>(int)",
                "at::native::(anonymous namespace)::run",
                Some("at::native::(anonymous namespace)"),
            ),
            ("std::enable_if<(a<b), void>::type ns::f<int>()", "ns::f", Some("ns")),
            ("foo<int>::bar<float>(int)", "foo::bar", Some("foo")),
            ("bool a::operator<(a::x, int)", "a::operator<", Some("a")),
            ("triton_kernel", "triton_kernel", None),
            ("", "", None),
        ] {
            assert_eq!(template(name), of, "{name}");
            assert_eq!(namespace(of), place, "{name}");
        }
    }
}
