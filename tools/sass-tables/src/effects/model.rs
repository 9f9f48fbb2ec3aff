//! What was learnt about an architecture, as text: one line a leaf, so that two versions can be compared.
//!
//! `947 BRA 87=0 93=1 : r P12.3*1 r P87.3*1 w R16.8*2` is opcode 0x947 where bit 87 is 0 and bit 93 is 1: it reads the predicate
//! numbered in the three bits from 12 on, and so on; `rf`/`wf R0` is a register that is touched whatever the bits say.

use std::collections::BTreeMap;
use std::fmt::Write;

use ptxinspect::base::RegFile;

use super::learn::{Label, Opcode};
use super::tree::Tree;

/// Letters of a register file.
pub fn letters(file: RegFile) -> &'static str {
    match file {
        RegFile::Gpr => "R",
        RegFile::Pred => "P",
        RegFile::Ugpr => "UR",
        RegFile::Upred => "UP",
    }
}

/// All leaves of all opcodes.
pub fn write(ops: &BTreeMap<u16, Opcode>) -> String {
    let mut out = String::new();
    for (code, op) in ops {
        let mut path = Vec::new();
        leaves(&op.tree, &mut path, &mut |path, label| {
            let _ = write!(out, "{code:03x} {}", op.mnemonic);
            for (bit, value) in path {
                let _ = write!(out, " {bit}={}", u8::from(*value));
            }
            let _ = write!(out, " :");
            for used in &label.uses {
                let role = if used.write { "w" } else { "r" };
                let field = used.field;
                let _ = write!(out, " {role} {}{}.{}*{}", letters(field.file), field.pos, field.bits, used.count);
            }
            for (file, index, write) in &label.fixed {
                let role = if *write { "wf" } else { "rf" };
                let _ = write!(out, " {role} {}{index}", letters(*file));
            }
            out.push('\n');
        });
    }
    out
}

fn leaves(tree: &Tree<Label>, path: &mut Vec<(u32, bool)>, visit: &mut impl FnMut(&[(u32, bool)], &Label)) {
    match tree {
        Tree::Empty => {}
        Tree::Leaf(label) => visit(path, label),
        Tree::Test { bit, zero, one } => {
            for (value, side) in [(false, zero), (true, one)] {
                path.push((*bit, value));
                leaves(side, path, visit);
                path.pop();
            }
        }
    }
}
