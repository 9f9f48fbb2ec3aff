//! Integer constants and constant expressions, as "Integer Constant Expression Evaluation" of the PTX ISA defines them.

use super::lexer::{Kind, Lexer, Token};

/// Parentheses and operators deeper than this are not evaluated: the evaluator recurses, hostile input must not.
const MAX_DEPTH: u32 = 256;

/// A value with its signedness: PTX has `.s64` and `.u64` constants.
#[derive(Clone, Copy)]
struct Value {
    bits: i64,
    unsigned: bool,
}

/// The value of one integer literal: `12`, `0x1fU`, `017`, `0b101`.
pub(super) fn literal(text: &str) -> Option<i64> {
    number(text).map(|value| value.bits)
}

fn number(text: &str) -> Option<Value> {
    let (digits, suffixed) = match text.strip_suffix(['U', 'u']) {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (digits.get(2..)?, 16),
        [b'0', b'b' | b'B', ..] => (digits.get(2..)?, 2),
        [b'0', _, ..] => (digits.get(1..)?, 8),
        _ => (digits, 10),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let value = u64::from_str_radix(digits, radix).ok()?;
    Some(Value { bits: value as i64, unsigned: suffixed || i64::try_from(value).is_err() })
}

/// The value of an integer constant expression; none if it is not one, or holds a name or a float.
pub(super) fn evaluate(text: &str) -> Option<i64> {
    let mut lexer = Lexer::new(text);
    let next = lexer.next();
    let mut evaluator = Evaluator { lexer, next, depth: 0 };
    let value = evaluator.conditional()?;
    (evaluator.next.kind == Kind::Eof).then_some(value.bits)
}

struct Evaluator<'a> {
    lexer: Lexer<'a>,
    next: Token,
    depth: u32,
}

impl Evaluator<'_> {
    fn advance(&mut self) -> Token {
        let token = self.next;
        self.next = self.lexer.next();
        token
    }

    fn conditional(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let condition = self.binary(0)?;
        let value = if self.next.kind == Kind::AddressSlice {
            self.advance();
            let yes = self.conditional()?;
            if self.advance().kind != Kind::Colon {
                return None;
            }
            let no = self.conditional()?;
            let unsigned = yes.unsigned || no.unsigned;
            Value { bits: if condition.bits != 0 { yes.bits } else { no.bits }, unsigned }
        } else {
            condition
        };
        self.depth -= 1;
        Some(value)
    }

    /// How tight the operator that comes next binds; none if no binary operator comes next.
    fn precedence(&self) -> Option<u32> {
        Some(match self.lexer.slice(self.next) {
            "||" => 1,
            "&&" => 2,
            "|" => 3,
            "^" => 4,
            "&" => 5,
            "==" | "!=" => 6,
            "<" | "<=" | ">" | ">=" => 7,
            "<<" | ">>" => 8,
            "+" | "-" => 9,
            "*" | "/" | "%" => 10,
            _ => return None,
        })
    }

    fn binary(&mut self, min: u32) -> Option<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut left = self.unary()?;
        while let Some(precedence) = self.precedence().filter(|&precedence| precedence > min) {
            let token = self.advance();
            let operator = self.lexer.slice(token);
            let right = self.binary(precedence)?;
            left = apply(operator, left, right)?;
        }
        self.depth -= 1;
        Some(left)
    }

    fn unary(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let token = self.advance();
        let value = match token.kind {
            Kind::Number => number(self.lexer.slice(token))?,
            Kind::Ident if self.lexer.slice(token) == "WARP_SZ" => Value { bits: 32, unsigned: false },
            Kind::Plus => self.unary()?,
            Kind::Minus => {
                let value = self.unary()?;
                Value { bits: value.bits.wrapping_neg(), ..value }
            }
            Kind::Bang => Value { bits: i64::from(self.unary()?.bits == 0), unsigned: false },
            Kind::Tilde => Value { bits: !self.unary()?.bits, unsigned: true },
            Kind::OpenParen if self.next.kind == Kind::Dot => {
                let cast = self.advance();
                let unsigned = self.lexer.slice(cast) == ".u64";
                if self.advance().kind != Kind::CloseParen {
                    return None;
                }
                Value { bits: self.unary()?.bits, unsigned }
            }
            Kind::OpenParen => {
                let value = self.conditional()?;
                if self.advance().kind != Kind::CloseParen {
                    return None;
                }
                value
            }
            _ => return None,
        };
        self.depth -= 1;
        Some(value)
    }
}

fn apply(operator: &str, left: Value, right: Value) -> Option<Value> {
    let unsigned = left.unsigned || right.unsigned;
    let (a, b) = (left.bits, right.bits);
    let (ua, ub) = (a as u64, b as u64);
    let truth = |yes: bool| Some(Value { bits: i64::from(yes), unsigned: false });
    let less = if unsigned { ua < ub } else { a < b };
    let bits = match operator {
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" if unsigned => ua.checked_div(ub)? as i64,
        "/" => a.checked_div(b)?,
        // "%" always treats its operands as unsigned.
        "%" => return Some(Value { bits: ua.checked_rem(ub)? as i64, unsigned: true }),
        "&" => a & b,
        "|" => a | b,
        "^" => a ^ b,
        // ptxas takes shift amounts modulo 64; the result has the type of the left operand.
        "<<" => return Some(Value { bits: a.wrapping_shl(b as u32), ..left }),
        ">>" if left.unsigned => return Some(Value { bits: ua.wrapping_shr(b as u32) as i64, ..left }),
        ">>" => return Some(Value { bits: a.wrapping_shr(b as u32), ..left }),
        "<" => return truth(less),
        "<=" => return truth(less || a == b),
        ">" => return truth(!less && a != b),
        ">=" => return truth(!less),
        "==" => return truth(a == b),
        "!=" => return truth(a != b),
        "&&" => return truth(a != 0 && b != 0),
        "||" => return truth(a != 0 || b != 0),
        _ => return None,
    };
    Some(Value { bits, unsigned })
}
