//! Names of a table: of instances of one template each says what tells it from the others, the rest is left out.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::names::{abridge, shorten, without_parameters};

/// How deep template arguments are taken apart; what is deeper is compared as text.
const DEEPEST: usize = 48;

/// The names of a table in at most `width` characters each. Where a name does not fit, names of the same function show the template
/// arguments in which they differ: those that are needed to tell them apart first, others as far as there is room. Names that are still
/// alike are numbered.
pub fn distinct(names: &[&str], width: usize) -> Vec<String> {
    let parsed: Vec<Node<'_>> = names.iter().map(|name| Node::parse(name)).collect();
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, node) in parsed.iter().enumerate() {
        groups.entry(node.head).or_default().push(at);
    }
    let mut bases: HashMap<&str, usize> = HashMap::new();
    for head in groups.keys() {
        *bases.entry(last_component(head)).or_default() += 1;
    }
    let mut shown = vec![String::new(); names.len()];
    for (head, group) in groups {
        let whole: Vec<&str> = group.iter().filter_map(|&at| names.get(at).copied()).collect();
        let different: HashSet<&str> = whole.iter().copied().collect();
        let fits = whole.iter().all(|name| name.chars().count() <= width);
        let texts: Vec<String> = if fits || different.len() == 1 {
            whole.iter().map(|name| abridge(name, width).into_owned()).collect()
        } else {
            let base = last_component(head);
            let base = if bases.get(base).is_some_and(|&several| several > 1) { head } else { base };
            let nodes: Vec<&Node<'_>> = group.iter().filter_map(|&at| parsed.get(at)).collect();
            tell_apart(base, &nodes, &whole, width)
        };
        for (at, text) in group.into_iter().zip(texts) {
            if let Some(place) = shown.get_mut(at) {
                *place = text;
            }
        }
    }
    for _ in 0..PASSES {
        if !show_where_alike_differ(names, &mut shown, width) {
            break;
        }
    }
    number_alike(names, &mut shown, width);
    shown
}

/// What is told of every name: its part of it, where it has one.
type Column = Vec<Option<String>>;

fn tell_apart(base: &str, nodes: &[&Node<'_>], whole: &[&str], width: usize) -> Vec<String> {
    let mut columns = Vec::new();
    let members: Vec<usize> = (0..nodes.len()).collect();
    differences(nodes, &members, nodes.len(), 0, &mut columns);
    let different = whole.iter().collect::<HashSet<_>>().len();
    // First what tells them apart, then what else there is room for.
    let mut keys: Vec<Vec<&Option<String>>> = vec![Vec::new(); nodes.len()];
    let classes = |keys: &[Vec<&Option<String>>]| keys.iter().collect::<HashSet<_>>().len();
    let mut needed = vec![false; columns.len()];
    let mut apart = 1;
    for (column, needed) in columns.iter().zip(&mut needed) {
        if apart >= different {
            break;
        }
        let longer: Vec<Vec<&Option<String>>> =
            keys.iter().zip(column).map(|(key, cell)| key.iter().copied().chain([cell]).collect()).collect();
        let now = classes(&longer);
        if now > apart {
            (keys, apart, *needed) = (longer, now, true);
        }
    }
    let text = |chosen: &[bool], at: usize| {
        let cells = columns
            .iter()
            .zip(chosen)
            .filter(|(_, chosen)| **chosen)
            .filter_map(|(column, _)| column.get(at)?.as_deref());
        let cells: Vec<&str> = cells.collect();
        if cells.is_empty() { format!("{base}<…>") } else { format!("{base}<{}>", cells.join(", ")) }
    };
    for at in 0..columns.len() {
        if needed.get(at) == Some(&true) {
            continue;
        }
        let mut more = needed.clone();
        if let Some(place) = more.get_mut(at) {
            *place = true;
        }
        if (0..nodes.len()).all(|name| text(&more, name).chars().count() <= width) {
            needed = more;
        }
    }
    (0..nodes.len()).map(|at| shorten(&text(&needed, at), width).into_owned()).collect()
}

/// Adds a column for each place at which some of the names differ.
fn differences(nodes: &[&Node<'_>], members: &[usize], total: usize, depth: usize, columns: &mut Vec<Column>) {
    let Some(first) = nodes.first() else { return };
    if nodes.iter().all(|node| node.text == first.text) {
        return;
    }
    let put = |column: &mut Column, texts: &mut dyn Iterator<Item = String>| {
        for (&member, text) in members.iter().zip(texts) {
            if let Some(cell) = column.get_mut(member) {
                *cell = Some(text);
            }
        }
    };
    let add = |columns: &mut Vec<Column>, texts: &mut dyn Iterator<Item = String>| {
        let mut column = vec![None; total];
        put(&mut column, texts);
        if !columns.contains(&column) {
            columns.push(column);
        }
    };
    if nodes.iter().all(|node| node.shape().is_some()) || depth > DEEPEST {
        return add(columns, &mut nodes.iter().map(|node| node.short()));
    }
    let kind = |node: &Node<'_>| (node.head.to_owned(), node.args.len(), node.tail.to_owned());
    let mut kinds: BTreeMap<(String, usize, String), Vec<usize>> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        kinds.entry(kind(node)).or_default().push(at);
    }
    if kinds.len() > 1 {
        add(columns, &mut nodes.iter().map(|node| node.name()));
    }
    for group in kinds.into_values() {
        let inside: Vec<&Node<'_>> = group.iter().filter_map(|&at| nodes.get(at).copied()).collect();
        let whose: Vec<usize> = group.iter().filter_map(|&at| members.get(at).copied()).collect();
        let args = inside.first().map_or(0, |node| node.args.len());
        for argument in 0..args {
            let arguments: Vec<&Node<'_>> = inside.iter().filter_map(|node| node.args.get(argument)).collect();
            differences(&arguments, &whose, total, depth + 1, columns);
        }
    }
}

/// Names that differ and are shown alike get a number.
fn number_alike(names: &[&str], shown: &mut [String], width: usize) {
    let mut alike: HashMap<String, Vec<&str>> = HashMap::new();
    for (name, text) in names.iter().zip(shown.iter()) {
        let of = alike.entry(text.clone()).or_default();
        if !of.contains(name) && of.len() < NUMBERED {
            of.push(name);
        }
    }
    for (name, text) in names.iter().zip(shown) {
        let Some(of) = alike.get(text.as_str()).filter(|of| of.len() > 1) else { continue };
        let Some(at) = of.iter().position(|known| known == name) else { continue };
        let number = format!(" #{}", at + 1);
        *text = format!("{}{number}", shorten(text, width.saturating_sub(number.len())));
    }
}

/// How often names that are still alike are taken apart.
const PASSES: usize = 4;

/// Of different names that were cut to the same text, shows the place at which they part, and what comes after it. Whether any are told
/// apart so that were not before.
fn show_where_alike_differ(names: &[&str], shown: &mut [String], width: usize) -> bool {
    let mut alike: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, text) in shown.iter().enumerate() {
        alike.entry(text.clone()).or_default().push(at);
    }
    let mut is_better = false;
    for (text, group) in alike {
        let whole: Vec<&str> = group.iter().filter_map(|&at| names.get(at).copied()).collect();
        let Some(from) = parting(&whole).filter(|_| whole.iter().any(|name| name.chars().count() > width)) else {
            continue;
        };
        let texts: Vec<String> = whole.iter().map(|name| from_parting(&text, name, from, width)).collect();
        if texts.iter().collect::<HashSet<_>>().len() < 2 {
            continue;
        }
        is_better = true;
        for (at, text) in group.into_iter().zip(texts) {
            if let Some(place) = shown.get_mut(at) {
                *place = text;
            }
        }
    }
    is_better
}

/// The byte from which different names are not the same, at the start of a word of theirs; none where all are the same.
fn parting(names: &[&str]) -> Option<usize> {
    let first = names.first()?;
    let common = |name: &&str| first.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    let shortest = names.iter().filter(|name| *name != first).map(common).min()?;
    let before = |at: usize| at.checked_sub(1).and_then(|at| first.as_bytes().get(at));
    let is_edge =
        |at: &usize| first.is_char_boundary(*at) && before(*at).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    (0..=shortest).rev().find(is_edge)
}

/// The start of a text, and a name from a byte on: `gemm_tensor…nn_align8`.
fn from_parting(text: &str, name: &str, from: usize, width: usize) -> String {
    /// Columns of the start that say which kernel it is.
    const START: usize = 12;
    let rest = name.get(from..).unwrap_or(name);
    let rest = shorten(rest, width.saturating_sub(START.min(width / 3) + 1));
    let room = width.saturating_sub(rest.chars().count() + 1);
    let start: String = text.trim_end_matches('…').chars().take(room).collect();
    format!("{start}…{rest}")
}

/// Names shown alike that are numbered; beyond, nobody counts.
const NUMBERED: usize = 1000;

/// `kernel` of `at::native::kernel`.
fn last_component(head: &str) -> &str {
    let mut open = 0;
    let mut from = 0;
    let bytes = head.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'{' | b'[' => open += 1,
            b')' | b'}' | b']' => open -= 1,
            b':' if open == 0 && bytes.get(at + 1) == Some(&b':') => from = at + 2,
            _ => {}
        }
    }
    head.get(from..).unwrap_or(head)
}

/// A name taken apart: `head<args>tail`.
#[derive(Debug)]
struct Node<'a> {
    text: &'a str,
    head: &'a str,
    args: Vec<Node<'a>>,
    tail: &'a str,
}

impl<'a> Node<'a> {
    /// Of a function: without its result and its parameters.
    fn parse(name: &'a str) -> Node<'a> {
        let end = match without_parameters(name) {
            std::borrow::Cow::Borrowed(_) => name.len(),
            std::borrow::Cow::Owned(bare) => bare.len() - "(…)".len(),
        };
        let bare = name.get(..end).unwrap_or(name);
        Node::of(bare.strip_prefix("void ").unwrap_or(bare), 0)
    }

    fn of(text: &'a str, depth: usize) -> Node<'a> {
        let text = text.trim();
        let plain = Node { text, head: text, args: Vec::new(), tail: "" };
        let (mut level, mut round, mut open, mut cuts, mut end) = (0usize, 0usize, None, Vec::new(), None);
        for (at, c) in text.char_indices() {
            let before = text.get(..at).unwrap_or_default();
            let is_bracket = round == 0
                && !before.ends_with("operator")
                && !before.ends_with("operator<")
                && !before.ends_with(['-', '=']);
            match c {
                '(' | '{' | '[' => round += 1,
                ')' | '}' | ']' => round = round.saturating_sub(1),
                '<' if is_bracket => {
                    level += 1;
                    if level == 1 {
                        open = Some(at);
                    }
                }
                '>' if is_bracket && level > 0 => {
                    level -= 1;
                    if level == 0 {
                        end = Some(at);
                        break;
                    }
                }
                ',' if round == 0 && level == 1 => cuts.push(at),
                _ => {}
            }
        }
        let (Some(open), Some(end)) = (open, end) else { return plain };
        if depth > DEEPEST {
            return plain;
        }
        let mut args = Vec::with_capacity(cuts.len() + 1);
        let mut from = open + 1;
        for to in cuts.into_iter().chain([end]) {
            args.push(Node::of(text.get(from..to).unwrap_or_default(), depth + 1));
            from = to + 1;
        }
        let (head, tail) = (text.get(..open).unwrap_or(text), text.get(end + 1..).unwrap_or_default());
        Node { text, head, args, tail }
    }

    /// What it is called, without where and with what.
    fn name(&self) -> String {
        let name = last_component(self.head);
        let name = name.strip_prefix("(bool)").unwrap_or(name);
        let name = match name.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((_, value)) if !value.is_empty() => value,
            _ => name,
        };
        format!("{name}{}", last_component(self.tail))
    }

    /// `128` of `cute::C<128>`, `128×64` of `cute::tuple<cute::C<128>, cute::C<64>>`: a number, or a shape of numbers.
    fn shape(&self) -> Option<String> {
        let number = |text: &str| {
            let digits = text.rsplit(')').next().unwrap_or(text);
            let digits = digits.trim_end_matches(['u', 'l', 'U', 'L']);
            let is_number =
                !digits.is_empty() && digits.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| digits.to_owned())
        };
        match (last_component(self.head), self.args.as_slice()) {
            (_, []) => number(self.text),
            ("C" | "constant" | "Int", [value]) | ("integral_constant", [_, value]) => value.shape(),
            ("tuple" | "Shape" | "GemmShape" | "Layout" | "Stride", args) => {
                let args: Option<Vec<String>> = args.iter().map(Node::shape).collect();
                args.map(|args| args.join("×"))
            }
            _ => None,
        }
    }

    fn short(&self) -> String {
        self.shape().unwrap_or_else(|| self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gemm(tile: (u32, u32), stages: u32, schedule: &str, element: &str) -> String {
        format!(
            "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, \
             cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<{stages}, \
             cute::tuple<cute::C<2>, cute::C<1>, cute::C<1>>, cutlass::gemm::{schedule}>, cute::tuple<cute::C<{}>, \
             cute::C<{}>, cute::C<64>>, {element}, cute::tuple<long, cute::C<1>, long>>>>\
             (cutlass::gemm::kernel::GemmUniversal<int>::Params)",
            tile.0, tile.1
        )
    }

    #[test]
    fn long_names_that_part_late_show_where() {
        let start = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_relu_f2f_stages_32x5";
        let names = [format!("{start}_nn_align8"), format!("{start}_nt_align8"), format!("{start}_tn_align2")];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let shown = distinct(&names, 40);
        for (text, end) in shown.iter().zip(["nn_align8", "nt_align8", "tn_align2"]) {
            assert!(text.starts_with("ampere_bf16") && text.ends_with(end), "{text}");
            assert!(text.chars().count() <= 40, "{text}");
        }
        // What parts twice is told apart twice.
        let end = "_and_a_tail_that_is_longer_than_the_table_is_wide";
        let names = [format!("{start}_a{end}_1"), format!("{start}_a{end}_2"), format!("{start}_b{end}_1")];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let shown = distinct(&names, 40);
        assert_eq!(shown.iter().collect::<HashSet<_>>().len(), 3, "{shown:?}");
        assert!(shown.iter().all(|text| !text.contains('#') && text.chars().count() <= 40), "{shown:?}");
    }

    #[test]
    fn instances_of_a_template_show_what_differs() {
        let names = [
            gemm((128, 128), 4, "KernelTmaWarpSpecializedCooperative", "cutlass::half_t"),
            gemm((128, 256), 4, "KernelTmaWarpSpecializedCooperative", "cutlass::half_t"),
            gemm((128, 256), 3, "KernelTmaWarpSpecializedPingpong", "cutlass::half_t"),
            gemm((128, 256), 3, "KernelTmaWarpSpecializedPingpong", "float"),
        ];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(
            distinct(&names, 90),
            [
                "device_kernel<4, KernelTmaWarpSpecializedCooperative, 128×128×64, half_t>",
                "device_kernel<4, KernelTmaWarpSpecializedCooperative, 128×256×64, half_t>",
                "device_kernel<3, KernelTmaWarpSpecializedPingpong, 128×256×64, half_t>",
                "device_kernel<3, KernelTmaWarpSpecializedPingpong, 128×256×64, float>",
            ]
        );
        // Less room: only what is needed.
        let narrow = distinct(&names, 40);
        assert_eq!(narrow.iter().collect::<HashSet<_>>().len(), 4, "{narrow:?}");
        assert_eq!(narrow[0], "device_kernel<4, 128×128×64, half_t>");
        for width in [3, 8, 20, 30] {
            for name in distinct(&names, width) {
                assert!(name.chars().count() <= width.max(4), "{name} in {width}");
            }
        }
    }

    #[test]
    fn names_that_fit_stay_and_overloads_are_numbered() {
        assert_eq!(distinct(&["a<1>(int)", "a<2>(int)", "b"], 20), ["a<1>(int)", "a<2>(int)", "b"]);
        let long = "x".repeat(40);
        let (one, two) = (format!("kernel<int>({long})"), format!("kernel<int>({long}, {long})"));
        assert_eq!(distinct(&[&one, &two, &one], 30), ["kernel<…> #1", "kernel<…> #2", "kernel<…> #1"]);
        // The same base in two namespaces keeps them.
        let (one, two) = (format!("a::k<int, {long}>"), format!("b::k<float, {long}>"));
        let (three, four) = (format!("a::k<long, {long}>"), format!("b::k<short, {long}>"));
        assert_eq!(
            distinct(&[&one, &two, &three, &four], 30),
            ["a::k<int>", "b::k<float>", "a::k<long>", "b::k<short>"]
        );
    }

    #[test]
    fn whatever_a_name_is_it_is_shown() {
        let deep = format!("k{}{}", "<a".repeat(5000), ">".repeat(5000));
        for name in ["", "<", ">", "a<b", "operator<", "a<(b<c)>", "((((", "k<a,,b>", "\u{202e}<é>", &deep] {
            let other = format!("{name}x");
            for text in distinct(&[name, &other], 10) {
                assert!(text.chars().count() <= 10, "{text}");
            }
        }
    }
}
