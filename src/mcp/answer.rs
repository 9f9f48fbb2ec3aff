//! Answers that fit: parts are added while there is room.

/// Tokens that an answer may have.
pub const TOKENS: usize = 1500;

/// Of those, kept for the words at the end that say what was left out.
const CLOSING: usize = 130;

/// How many tokens a text has at most: an estimate from above, since every model cuts text in its own way.
///
/// Vocabularies hold short words and pairs or triples of digits; names that no vocabulary has, and hexadecimal, fall into pieces of two or three
/// characters; what is not ASCII may take a token for each byte and seldom does.
pub fn tokens(text: &str) -> usize {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Kind {
        Lower,
        Upper,
        Digit,
        Space,
        Other,
    }
    let kind = |c: char| match c {
        'a'..='z' => Kind::Lower,
        'A'..='Z' => Kind::Upper,
        '0'..='9' => Kind::Digit,
        ' ' => Kind::Space,
        _ => Kind::Other,
    };
    let mut count = 0;
    let mut chars = text.chars().peekable();
    while let Some(first) = chars.next() {
        let of = kind(first);
        let mut length: usize = 1;
        while chars
            .next_if(|&c| kind(c) == of || (of == Kind::Upper && length == 1 && kind(c) == Kind::Lower))
            .is_some()
        {
            length += 1;
        }
        count += match of {
            Kind::Lower => length.div_ceil(4),
            Kind::Upper => length.div_ceil(3),
            Kind::Digit => length.div_ceil(2),
            // One space belongs to the word after it; digits take none.
            Kind::Space => usize::from(
                length > 1 || chars.peek().is_none_or(|&next| kind(next) != Kind::Lower && kind(next) != Kind::Upper),
            ),
            Kind::Other if first.is_ascii() => length,
            Kind::Other => 2 * length,
        };
    }
    count
}

/// An answer that is being put together.
pub struct Answer {
    text: String,
    room: usize,
}

impl Answer {
    /// With nothing in it.
    pub fn new() -> Answer {
        Answer { text: String::new(), room: TOKENS - CLOSING }
    }

    /// Adds a part if there is room for all of it.
    pub fn add(&mut self, part: &str) -> bool {
        let cost = tokens(part);
        if cost > self.room {
            return false;
        }
        self.room -= cost;
        self.text.push_str(part);
        true
    }

    /// Adds the lines of a part that there is room for, and says how many there was none for.
    pub fn add_lines(&mut self, part: &str) -> usize {
        let mut lines = part.split_inclusive('\n');
        let mut left_out = 0;
        for line in lines.by_ref() {
            if !self.add(line) {
                left_out = 1 + lines.by_ref().count();
                break;
            }
        }
        left_out
    }

    /// Ends it with what was left out and how to ask for it. What does not fit of that is cut.
    pub fn close(mut self, closing: &str) -> String {
        self.room += CLOSING;
        let mut closing = closing.to_owned();
        while tokens(&closing) > self.room {
            closing = closing.chars().take(closing.chars().count() * 3 / 4).collect();
        }
        self.text.push_str(&closing);
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_stays_out() {
        let mut answer = Answer::new();
        assert!(answer.add("first\n"));
        assert!(!answer.add(&"word ".repeat(TOKENS)));
        assert_eq!(answer.add_lines(&"line of words\n".repeat(TOKENS)), TOKENS - (TOKENS - CLOSING - 3) / 5);
        let text = answer.close(&"more. ".repeat(TOKENS));
        assert!(text.starts_with("first\nline"));
        assert!(tokens(&text) <= TOKENS && tokens(&text) > TOKENS * 9 / 10, "{}", tokens(&text));
    }

    #[test]
    fn names_and_numbers_cost_more_than_words() {
        assert_eq!(tokens("two words"), 3);
        assert_eq!(tokens("R12"), 2);
        assert!(tokens("_ZN7cutlass13device_kernelINS_4gemm") > 10);
        assert_eq!(tokens("→→"), 4);
    }
}
