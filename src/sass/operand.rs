//! Operands as values, read off the text the tables give an instruction.
//!
//! In: the operand part of a text, such as `R2, |R4|.reuse, c[0x0][0x160], desc[UR4][R2.64+0x10]`. Out: one [`Operand`] for
//! each. A spelling this module does not know becomes [`OperandKind::Name`], never a guess.

use crate::base::RegFile;

/// A register as an operand names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reg {
    /// Its file.
    pub file: RegFile,
    /// Its number; the constant registers are RZ 255, PT and UPT 7, URZ 63 up to sm_90 and 255 from sm_100 on.
    pub index: u16,
}

/// What an operand is.
#[derive(Clone, Debug, PartialEq)]
pub enum OperandKind<'a> {
    /// `R4`, `UR6`, `P0`, `UP1`
    Reg(Reg),
    /// `B0`: a convergence barrier register.
    Barrier(u8),
    /// `SB0`: a scoreboard.
    Scoreboard(u8),
    /// `0x10`, `-0x4`
    Int(i64),
    /// `1.5`, `+INF `
    Float(f64),
    /// `c[0x0][0x160]`, `cx[UR4][0x10]`, `desc[UR4][R2.64+0x10]`, `[R2.64+UR4+0x10]`, `gdesc[UR8]`, `tmem[UR4]`
    Memory {
        /// What stands before the first bracket: `c`, `cx`, `desc`, `gdesc`, or nothing.
        space: &'a str,
        /// Inside each pair of brackets: registers and numbers that are added up.
        parts: Vec<Vec<Term<'a>>>,
    },
    /// `SR_TID.X`, `{5,4}`, `1D`, `PR`: a name of its own.
    Name(&'a str),
}

/// A summand of an address.
#[derive(Clone, Debug, PartialEq)]
pub enum Term<'a> {
    /// A register with its suffixes: `R2.64`, `UR4`.
    Reg(Reg, &'a str),
    /// A number.
    Int(i64),
    /// Anything else.
    Name(&'a str),
}

/// An operand with what decorates it.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand<'a> {
    /// What it is.
    pub kind: OperandKind<'a>,
    /// `-R4`
    pub negated: bool,
    /// `|R4|`
    pub absolute: bool,
    /// `~R4`, `!P0`
    pub inverted: bool,
    /// `R4.reuse`
    pub reuse: bool,
    /// Other suffixes: `.H0_H0`, `.64`, `.F32x2.HI_LO`.
    pub suffix: &'a str,
    /// The operand as it is printed.
    pub text: &'a str,
}

/// An instruction's text in its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts<'a> {
    /// `IMAD`
    pub mnemonic: &'a str,
    /// `WIDE`, `U32`
    pub modifiers: Vec<&'a str>,
    /// In the order of the text.
    pub operands: Vec<Operand<'a>>,
}

/// Takes a text as [`Decoder::text`](super::Decoder::text) writes it apart.
pub fn parts(text: &str) -> Parts<'_> {
    let body = match text.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
        Some((_, body)) => body,
        None => text,
    };
    let (opcode, rest) = body.split_once(' ').unwrap_or((body, ""));
    let mut names = opcode.split('.');
    let mnemonic = names.next().unwrap_or("");
    let modifiers = names.collect();
    Parts { mnemonic, modifiers, operands: split_operands(rest).into_iter().map(operand).collect() }
}

/// Splits at commas outside brackets and braces. `RET.REL.NODEC R2 0x40` separates by a space.
fn split_operands(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut depth = 0i32;
    let mut start = 0;
    let bytes = text.as_bytes();
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' => depth -= 1,
            b',' if depth == 0 => {
                out.push(&text[start..i]);
                start = i + 1;
            }
            b' ' if depth == 0 && i > start && matches!(bytes.get(i + 1), Some(b'0'..=b'9' | b'-')) => {
                out.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out.into_iter().map(str::trim).filter(|s| !s.is_empty()).collect()
}

/// `R4`, `RZ`, `UR6`, `PT`: the register and what follows it.
fn register(text: &str) -> Option<(Reg, &str)> {
    let (file, rest) = if let Some(rest) = text.strip_prefix("UR") {
        (RegFile::Ugpr, rest)
    } else if let Some(rest) = text.strip_prefix("UP") {
        (RegFile::Upred, rest)
    } else if let Some(rest) = text.strip_prefix('R') {
        (RegFile::Gpr, rest)
    } else {
        (RegFile::Pred, text.strip_prefix('P')?)
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (index, rest) = match file {
        _ if digits > 0 => (rest[..digits].parse().ok()?, &rest[digits..]),
        RegFile::Gpr | RegFile::Ugpr => (255, rest.strip_prefix('Z')?),
        RegFile::Pred | RegFile::Upred => (7, rest.strip_prefix('T')?),
    };
    let ends = rest.is_empty() || rest.starts_with('.') || rest.starts_with('|');
    ends.then_some((Reg { file, index }, rest))
}

fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let value = u64::from_str_radix(digits.strip_prefix("0x")?, 16).ok()? as i64;
    Some(if negative { value.wrapping_neg() } else { value })
}

fn float(text: &str) -> Option<f64> {
    match text.trim() {
        "+INF" => Some(f64::INFINITY),
        "-INF" => Some(f64::NEG_INFINITY),
        "+QNAN" | "-QNAN" | "+SNAN" | "-SNAN" => Some(f64::NAN),
        other if other.starts_with(|c: char| c.is_ascii_digit() || c == '-') => other.parse().ok(),
        _ => None,
    }
}

fn numbered(text: &str, prefix: &str) -> Option<u8> {
    text.strip_prefix(prefix)?.parse().ok()
}

fn terms(text: &str) -> Vec<Term<'_>> {
    text.split('+')
        .filter(|part| !part.is_empty())
        .map(|part| match (register(part), integer(part)) {
            (Some((reg, suffix)), _) => Term::Reg(reg, suffix),
            (None, Some(value)) => Term::Int(value),
            (None, None) => Term::Name(part),
        })
        .collect()
}

fn memory(text: &str) -> Option<(OperandKind<'_>, &str)> {
    let open = text.find('[')?;
    let space = &text[..open];
    if !space.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return None;
    }
    let mut parts = Vec::new();
    let mut rest = &text[open..];
    while let Some(inner) = rest.strip_prefix('[') {
        let close = inner.find(']')?;
        parts.push(terms(&inner[..close]));
        rest = &inner[close + 1..];
    }
    Some((OperandKind::Memory { space, parts }, rest))
}

fn operand(text: &str) -> Operand<'_> {
    let plain =
        |kind| Operand { kind, negated: false, absolute: false, inverted: false, reuse: false, suffix: "", text };
    if let Some(value) = integer(text) {
        return plain(OperandKind::Int(value));
    }
    if let Some(value) = float(text) {
        return plain(OperandKind::Float(value));
    }
    let mut out = plain(OperandKind::Name(text));
    let mut rest = text;
    loop {
        if let Some(inner) = rest.strip_prefix('-') {
            out.negated = true;
            rest = inner;
        } else if let Some(inner) = rest.strip_prefix(['~', '!']) {
            out.inverted = true;
            rest = inner;
        } else if let Some(inner) = rest.strip_prefix('|') {
            out.absolute = true;
            rest = inner;
        } else {
            break;
        }
    }
    let (kind, tail) = if let Some((reg, tail)) = register(rest) {
        (OperandKind::Reg(reg), tail)
    } else if let Some(found) = memory(rest) {
        found
    } else if let Some(value) = numbered(rest, "SB") {
        (OperandKind::Scoreboard(value), "")
    } else if let Some(value) = numbered(rest, "B") {
        (OperandKind::Barrier(value), "")
    } else {
        (OperandKind::Name(rest), "")
    };
    out.kind = kind;
    let tail = tail.trim_start_matches('|');
    match tail.strip_suffix(".reuse") {
        Some(suffix) => {
            out.reuse = true;
            out.suffix = suffix;
        }
        None => match tail.strip_prefix(".reuse") {
            Some(suffix) => {
                out.reuse = true;
                out.suffix = suffix;
            }
            None => out.suffix = tail,
        },
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reg(file: RegFile, index: u16) -> OperandKind<'static> {
        OperandKind::Reg(Reg { file, index })
    }

    #[test]
    fn takes_texts_apart() {
        let parts = parts("@!P0 FFMA.FTZ R0, -|R4|.reuse, c[0x0][0x160], RZ");
        assert_eq!((parts.mnemonic, parts.modifiers.as_slice()), ("FFMA", ["FTZ"].as_slice()));
        assert_eq!(parts.operands.len(), 4);
        let second = &parts.operands[1];
        assert!(second.negated && second.absolute && second.reuse && !second.inverted);
        assert_eq!(second.kind, reg(RegFile::Gpr, 4));
        let expected = OperandKind::Memory { space: "c", parts: vec![vec![Term::Int(0)], vec![Term::Int(0x160)]] };
        assert_eq!(parts.operands[2].kind, expected);
        assert_eq!(parts.operands[3].kind, reg(RegFile::Gpr, 255));
    }

    #[test]
    fn addresses_numbers_and_names() {
        let load = parts("LDG.E.64 R2, desc[UR4][R2.64+UR6+-0x10]");
        let OperandKind::Memory { space, parts: inner } = &load.operands[1].kind else { panic!("{load:?}") };
        assert_eq!((*space, inner.len(), inner[1].len()), ("desc", 2, 3));
        assert_eq!(inner[1][0], Term::Reg(Reg { file: RegFile::Gpr, index: 2 }, ".64"));
        assert_eq!(inner[1][2], Term::Int(-0x10));
        let bar = parts("DEPBAR.LE SB0, 0x0, {5,4}");
        assert_eq!(bar.operands[0].kind, OperandKind::Scoreboard(0));
        assert_eq!(bar.operands[2].kind, OperandKind::Name("{5,4}"));
        assert_eq!(parts("S2R R0, SR_TID.X").operands[1].kind, OperandKind::Name("SR_TID.X"));
        assert_eq!(parts("RET.REL.NODEC R2 0x40").operands[1].kind, OperandKind::Int(0x40));
        assert_eq!(parts("FADD R0, R1, -INF ").operands[2].kind, OperandKind::Float(f64::NEG_INFINITY));
        let halves = parts("HADD2.F32 R4, -RZ, R4.H0_H0");
        assert_eq!(halves.operands[2].suffix, ".H0_H0");
        assert!(parts("EXIT").operands.is_empty());
    }
}
