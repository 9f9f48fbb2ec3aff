//! A learnt architecture as lines of text: written by `learn`, read by `pack`, compared by `diff`.
//!
//! ```text
//! class 0 210 base=… fixed=… guard=1
//! slot 0 R add=0 16:1 17:2 …
//! text L"IADD3" @0.0 L" " S0 …
//! comp b72 b73 e3=255 p4 | dense
//! var 0 | L".X" | -
//! tab 0=0 1=1 …
//! tree 210 b74 l0 l1
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail};

use crate::edit::SLOT;
use crate::model::{Comp, Input, Literals, Model, Piece, Test};
use crate::slot::{Format, Slot};
use crate::text::Kind;
use crate::tree::Tree;

const FORMATS: [(&str, Format); 14] = [
    ("R", Format::Linear(Kind::R)),
    ("UR", Format::Linear(Kind::Ur)),
    ("P", Format::Linear(Kind::P)),
    ("UP", Format::Linear(Kind::Up)),
    ("B", Format::Linear(Kind::B)),
    ("SB", Format::Linear(Kind::Sb)),
    ("hex", Format::Linear(Kind::Hex)),
    ("target", Format::Linear(Kind::Target)),
    ("set", Format::Linear(Kind::Set)),
    ("f16", Format::F16),
    ("bf16", Format::Bf16),
    ("f32", Format::F32),
    ("f64", Format::F64High),
    ("hex64", Format::Linear(Kind::Wide)),
];

/// One architecture: its models, and which of them a word has, by opcode.
#[derive(Clone, Default)]
pub struct Learnt {
    pub arch: String,
    pub models: Vec<Model>,
    pub opcodes: Vec<u16>,
    pub trees: BTreeMap<u16, Tree>,
}

/// How a format is called in models and descriptions.
pub fn format_name(format: Format) -> &'static str {
    FORMATS.iter().find(|f| f.1 == format).map_or("hex", |f| f.0)
}

pub fn format_number(format: Format) -> u8 {
    FORMATS.iter().position(|f| f.1 == format).unwrap_or(6) as u8 + 1
}

fn token(out: &mut String, lits: &Literals, t: u32) {
    if t & SLOT != 0 {
        let _ = write!(out, " S{}", t & !SLOT);
    } else {
        let _ = write!(out, " L{}", escape(lits.get(t)));
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace(' ', "\\s")
}

fn unescape(text: &str) -> String {
    text.replace("\\s", " ").replace("\\\\", "\\")
}

fn write_tree(out: &mut String, tree: &Tree) {
    match tree {
        Tree::Leaf(label) => {
            let _ = write!(out, " l{}", *label as i32);
        }
        Tree::Bit(bit, no, yes) => {
            let _ = write!(out, " b{bit}");
            write_tree(out, no);
            write_tree(out, yes);
        }
        Tree::Equal(mask, value, no, yes) => {
            let _ = write!(out, " e{mask:x}={value:x}");
            write_tree(out, no);
            write_tree(out, yes);
        }
    }
}

fn read_tree<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Tree> {
    let word = words.next().context("a tree ends early")?;
    let (kind, rest) = word.split_at(1);
    Ok(match kind {
        "l" => Tree::Leaf(rest.parse::<i32>()? as u32),
        "b" => Tree::Bit(rest.parse()?, Box::new(read_tree(words)?), Box::new(read_tree(words)?)),
        "e" => {
            let (mask, value) = rest.split_once('=').context("equality without value")?;
            let (mask, value) = (u128::from_str_radix(mask, 16)?, u128::from_str_radix(value, 16)?);
            Tree::Equal(mask, value, Box::new(read_tree(words)?), Box::new(read_tree(words)?))
        }
        _ => bail!("'{word}' is no node of a tree"),
    })
}

pub fn write(learnt: &Learnt, lits: &Literals) -> String {
    let mut out = format!("arch {}\n", learnt.arch);
    for (i, model) in learnt.models.iter().enumerate() {
        let _ = writeln!(out, "class {i} {:03x} base={:x} fixed={:x}", learnt.opcodes[i], model.base, model.fixed);
        for slot in &model.slots {
            let _ = write!(out, "slot {} {}", format_name(slot.format), slot.add);
            for (bit, weight) in &slot.bits {
                let _ = write!(out, " {bit}:{weight}");
            }
            out.push('\n');
        }
        out.push_str("text");
        for piece in &model.pieces {
            match *piece {
                Piece::Token(t) => token(&mut out, lits, t),
                Piece::Site(c, s) => {
                    let _ = write!(out, " @{c}.{s}");
                }
            }
        }
        out.push('\n');
        for comp in &model.comps {
            out.push_str("comp");
            for input in &comp.inputs {
                let _ = match input {
                    Input::Bit(bit) => write!(out, " b{bit}"),
                    Input::Feature(slot, Test::Eq(value)) => write!(out, " e{slot}={value}"),
                    Input::Feature(slot, Test::Pow2) => write!(out, " p{slot}"),
                };
            }
            out.push('\n');
            for variant in &comp.variants {
                out.push_str("var");
                for site in variant {
                    out.push_str(" |");
                    for &t in site {
                        token(&mut out, lits, t);
                    }
                }
                out.push('\n');
            }
            out.push_str("tab");
            for (index, variant) in &comp.table {
                let _ = write!(out, " {index}={variant}");
            }
            out.push('\n');
        }
    }
    for (opcode, tree) in &learnt.trees {
        let _ = write!(out, "tree {opcode:03x}");
        write_tree(&mut out, tree);
        out.push('\n');
    }
    out
}

pub fn read(text: &str, lits: &mut Literals) -> Result<Learnt> {
    let mut learnt = Learnt::default();
    for (number, line) in text.lines().enumerate() {
        read_line(line, &mut learnt, lits).with_context(|| format!("line {}", number + 1))?;
    }
    Ok(learnt)
}

fn read_token(word: &str, lits: &mut Literals) -> Result<u32> {
    let (kind, rest) = word.split_at(1);
    Ok(match kind {
        "S" => SLOT | rest.parse::<u32>()?,
        "L" => lits.id(&unescape(rest)),
        _ => bail!("'{word}' is no token"),
    })
}

fn read_line(line: &str, learnt: &mut Learnt, lits: &mut Literals) -> Result<()> {
    let mut words = line.split(' ');
    let kind = words.next().unwrap_or("");
    if kind == "arch" {
        learnt.arch = words.next().unwrap_or("").to_owned();
        return Ok(());
    }
    if kind == "class" {
        words.next();
        learnt.opcodes.push(u16::from_str_radix(words.next().context("opcode")?, 16)?);
        let mut model = Model::default();
        for word in words {
            let (name, value) = word.split_once('=').context("name=value")?;
            let value = u128::from_str_radix(value, 16)?;
            match name {
                "base" => model.base = value,
                _ => model.fixed = value,
            }
        }
        learnt.models.push(model);
        return Ok(());
    }
    if kind == "tree" {
        let opcode = u16::from_str_radix(words.next().context("opcode")?, 16)?;
        learnt.trees.insert(opcode, read_tree(&mut words)?);
        return Ok(());
    }
    let model = learnt.models.last_mut().context("no class yet")?;
    match kind {
        "slot" => {
            let name = words.next().context("format")?;
            let format = FORMATS.iter().find(|f| f.0 == name).context("unknown format")?.1;
            let add = words.next().context("constant")?.parse()?;
            let mut bits = Vec::new();
            for word in words {
                let (bit, weight) = word.split_once(':').context("bit:weight")?;
                bits.push((bit.parse()?, weight.parse()?));
            }
            model.slots.push(Slot { format, bits, add });
        }
        "text" => {
            for word in words {
                model.pieces.push(match word.strip_prefix('@') {
                    Some(site) => {
                        let (c, s) = site.split_once('.').context("comp.site")?;
                        Piece::Site(c.parse()?, s.parse()?)
                    }
                    None => Piece::Token(read_token(word, lits)?),
                });
            }
        }
        "comp" => {
            let mut inputs = Vec::new();
            for word in words {
                let (kind, rest) = word.split_at(1);
                inputs.push(match kind {
                    "b" => Input::Bit(rest.parse()?),
                    "p" => Input::Feature(rest.parse()?, Test::Pow2),
                    _ => {
                        let (slot, value) = rest.split_once('=').context("slot=value")?;
                        Input::Feature(slot.parse()?, Test::Eq(value.parse()?))
                    }
                });
            }
            let comp = Comp { inputs, table: BTreeMap::new(), variants: Vec::new(), sites: Vec::new() };
            model.comps.push(comp);
        }
        "var" => {
            let comp = model.comps.last_mut().context("no component yet")?;
            let mut sites: Vec<Vec<u32>> = Vec::new();
            for word in words {
                if word == "|" {
                    sites.push(Vec::new());
                } else {
                    sites.last_mut().context("no site yet")?.push(read_token(word, lits)?);
                }
            }
            comp.variants.push(sites);
        }
        "tab" => {
            let comp = model.comps.last_mut().context("no component yet")?;
            for word in words {
                let (index, variant) = word.split_once('=').context("index=variant")?;
                comp.table.insert(index.parse()?, variant.parse()?);
            }
        }
        _ => bail!("unknown line '{kind}'"),
    }
    Ok(())
}
