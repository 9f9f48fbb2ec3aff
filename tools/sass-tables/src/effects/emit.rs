//! Writes `src/sass/effects/table.rs` from the models of all architectures. Equal trees, leaves and lists are written once.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// One use as the table has it: file, position, bits, written, count.
type Use = (&'static str, u8, u8, bool, u8);

#[derive(Default)]
struct Table {
    nodes: Vec<(u8, u16, u16)>,
    node_ids: HashMap<(u8, u16, u16), u16>,
    leaves: Vec<(u16, u8)>,
    leaf_ids: HashMap<Vec<Use>, u16>,
    uses: Vec<Use>,
}

/// A leaf: the tests that lead to it, and its uses.
type Line = (Vec<(u8, bool)>, Vec<Use>);

/// Reads `*.effects` in a folder and gives the source of the table.
pub fn emit(models: &Path) -> Result<String> {
    let mut table = Table::default();
    let mut arches: BTreeMap<u16, Vec<(u16, u16)>> = BTreeMap::new();
    let mut files: Vec<_> = std::fs::read_dir(models)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "effects")) {
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("");
        let sm: u16 = name.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse().context("model name")?;
        let mut ops: BTreeMap<u16, Vec<Line>> = BTreeMap::new();
        for line in std::fs::read_to_string(path)?.lines() {
            let (code, leaf) = parse(line).with_context(|| format!("{}: {line}", path.display()))?;
            ops.entry(code).or_default().push(leaf);
        }
        let roots = arches.entry(sm).or_default();
        for (code, lines) in ops {
            let root = table.tree(&lines, 0)?;
            roots.push((code, root));
        }
    }
    Ok(table.source(&arches))
}

/// `947 BRA 87=0 : r P12.3*1 rf R0`
fn parse(line: &str) -> Result<(u16, Line)> {
    let (head, tail) = line.split_once(" :").context("no colon")?;
    let mut head = head.split_whitespace();
    let code = u16::from_str_radix(head.next().context("no opcode")?, 16)?;
    let path = head
        .skip(1)
        .map(|test| {
            let (bit, value) = test.split_once('=').context("no test")?;
            Ok((bit.parse()?, value == "1"))
        })
        .collect::<Result<_>>()?;
    let mut uses = Vec::new();
    let mut words = tail.split_whitespace();
    while let (Some(role), Some(what)) = (words.next(), words.next()) {
        let split = what.find(|c: char| c.is_ascii_digit()).context("no number")?;
        let file = match &what[..split] {
            "R" => "Gpr",
            "P" => "Pred",
            "UR" => "Ugpr",
            "UP" => "Upred",
            other => bail!("no register file {other}"),
        };
        let number = &what[split..];
        let write = role.starts_with('w');
        if role.ends_with('f') {
            uses.push((file, number.parse()?, 0, write, 1));
        } else {
            let (pos, rest) = number.split_once('.').context("no bits")?;
            let (bits, count) = rest.split_once('*').context("no count")?;
            uses.push((file, pos.parse()?, bits.parse()?, write, count.parse()?));
        }
    }
    Ok((code, (path, uses)))
}

impl Table {
    fn tree(&mut self, lines: &[Line], depth: usize) -> Result<u16> {
        let (path, uses) = lines.first().context("a test has one side only")?;
        let Some(&(bit, _)) = path.get(depth) else {
            let leaf = self.leaf(uses)?;
            return self.node((0xff, leaf, 0));
        };
        let (ones, zeros): (Vec<Line>, Vec<Line>) = lines.iter().cloned().partition(|(path, _)| path[depth].1);
        let (zero, one) = (self.tree(&zeros, depth + 1)?, self.tree(&ones, depth + 1)?);
        if zero == one { Ok(zero) } else { self.node((bit, zero, one)) }
    }

    fn node(&mut self, node: (u8, u16, u16)) -> Result<u16> {
        if let Some(&id) = self.node_ids.get(&node) {
            return Ok(id);
        }
        let id = u16::try_from(self.nodes.len()).context("too many nodes")?;
        self.nodes.push(node);
        self.node_ids.insert(node, id);
        Ok(id)
    }

    fn leaf(&mut self, uses: &[Use]) -> Result<u16> {
        if let Some(&id) = self.leaf_ids.get(uses) {
            return Ok(id);
        }
        let id = u16::try_from(self.leaves.len()).context("too many leaves")?;
        let first = self.uses.windows(uses.len().max(1)).position(|window| window == uses).unwrap_or_else(|| {
            let at = self.uses.len();
            self.uses.extend_from_slice(uses);
            at
        });
        self.leaves.push((u16::try_from(first).context("too many uses")?, u8::try_from(uses.len())?));
        self.leaf_ids.insert(uses.to_vec(), id);
        Ok(id)
    }

    fn source(&self, arches: &BTreeMap<u16, Vec<(u16, u16)>>) -> String {
        let mut out = String::from(
            "//! Written by `sass-tables effects`: do not edit. What nvdisasm marks beside each opcode, learnt by probing.\n\n\
             use super::{EffectTable, FieldUse, Leaf, Node, spread};\nuse crate::base::RegFile;\n\n\
             const fn n(bit: u8, zero: u16, one: u16) -> Node {\n    Node { bit, zero, one }\n}\n\n\
             const fn l(first: u16, count: u8) -> Leaf {\n    Leaf { first, count }\n}\n\n\
             const fn u(file: RegFile, pos: u8, bits: u8, write: bool, count: u8) -> FieldUse {\n    \
             FieldUse { file, pos, bits, write, count }\n}\n\n\
             const R: RegFile = RegFile::Gpr;\nconst P: RegFile = RegFile::Pred;\nconst UR: RegFile = RegFile::Ugpr;\n\
             const UP: RegFile = RegFile::Upred;\nconst Y: bool = true;\nconst N: bool = false;\n\n",
        );
        let lists: [(&str, &str, Vec<String>); 3] = [
            ("NODES", "Node", self.nodes.iter().map(|(b, z, o)| format!("n({b}, {z}, {o})")).collect()),
            ("LEAVES", "Leaf", self.leaves.iter().map(|(f, c)| format!("l({f}, {c})")).collect()),
            (
                "USES",
                "FieldUse",
                self.uses
                    .iter()
                    .map(|used| {
                        let file = match used.0 {
                            "Gpr" => "R",
                            "Pred" => "P",
                            "Ugpr" => "UR",
                            _ => "UP",
                        };
                        format!("u({file}, {}, {}, {}, {})", used.1, used.2, if used.3 { "Y" } else { "N" }, used.4)
                    })
                    .collect(),
            ),
        ];
        for (name, kind, items) in lists {
            let _ = writeln!(out, "#[rustfmt::skip]\npub(super) static {name}: &[{kind}] = &[");
            lines(&mut out, &items);
            out.push_str("];\n\n");
        }
        out.push_str("#[rustfmt::skip]\npub(super) static TABLES: &[EffectTable] = &[\n");
        for (sm, roots) in arches {
            let _ = writeln!(out, "    spread({sm}, &[");
            lines(&mut out, &roots.iter().map(|(code, root)| format!("(0x{code:03x}, {root})")).collect::<Vec<_>>());
            out.push_str("    ]),\n");
        }
        out.push_str("];\n");
        out
    }
}

/// Items, as many to a line as fit.
fn lines(out: &mut String, items: &[String]) {
    let mut width = 0;
    for item in items {
        if width + item.len() > 112 {
            out.push('\n');
            width = 0;
        }
        out.push_str(if width == 0 { "    " } else { " " });
        let _ = write!(out, "{item},");
        width += item.len() + 2;
    }
    if !items.is_empty() {
        out.push('\n');
    }
}
