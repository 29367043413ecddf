//! Tokens of the constraint language.
//!
//! A token is searched at the start of the remaining text: the kinds are tried in a fixed order and the first that fits wins,
//! without backtracking inside a kind. That order is part of the language: `12abc` begins with a number, `in.x` with the name
//! `in.x`, and ` in` with the operator wherever whitespace precedes it.
//! Source: agreement-protocol 3.4 (checked against the tokens of the reference).

use super::SyntaxProblem;

/// The kinds of tokens, in the order in which they are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word that begins with `in`.
    InWord,
    And,
    Or,
    Order,
    In,
    Equality,
    VersionRange,
    Version,
    Number,
    Open,
    Close,
    Word,
    Quoted,
    List,
}

impl Kind {
    pub(super) fn is_name(self) -> bool {
        matches!(self, Self::InWord | Self::Word)
    }

    pub(super) fn is_operator(self) -> bool {
        matches!(self, Self::Order | Self::In | Self::Equality)
    }

    pub(super) fn is_value(self) -> bool {
        use Kind as K;
        matches!(self, K::InWord | K::Word | K::Quoted | K::List | K::Version | K::VersionRange | K::Number)
    }
}

/// One token with its text, which includes the whitespace that belongs to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
}

/// Returns the token that the text begins with, `None` at the end of the text.
///
/// # Errors
/// [`SyntaxProblem::NoToken`] when none fits, and where the reference's tokenizer drops a character: its input is then always
/// refused in the end.
pub(super) fn first_token(text: &str) -> Result<Option<Token<'_>>, SyntaxProblem> {
    if text.is_empty() {
        return Ok(None);
    }
    for (kind, rule) in RULES {
        let mut cursor = Cursor { rest: text, has_dropped: false };
        if rule(&mut cursor) {
            let length = text.len() - cursor.rest.len();
            return if cursor.has_dropped || length == 0 {
                Err(SyntaxProblem::NoToken)
            } else {
                Ok(Some(Token { kind, text: &text[..length] }))
            };
        }
    }
    Err(SyntaxProblem::NoToken)
}

type Rule = fn(&mut Cursor<'_>) -> bool;

const RULES: [(Kind, Rule); 14] = [
    (Kind::InWord, in_word),
    (Kind::And, |cursor| connective(cursor, "AND", "&&")),
    (Kind::Or, |cursor| connective(cursor, "OR", "||")),
    (Kind::Order, order),
    (Kind::In, in_operator),
    (Kind::Equality, equality),
    (Kind::VersionRange, version_range),
    (Kind::Version, |cursor| {
        cursor.skip(is_whitespace);
        version(cursor)
    }),
    (Kind::Number, number),
    (Kind::Open, |cursor| {
        cursor.skip(is_whitespace);
        cursor.one(|character| character == '(') && cursor.skip(is_whitespace)
    }),
    (Kind::Close, |cursor| {
        cursor.skip(is_whitespace);
        cursor.one(|character| character == ')')
    }),
    (Kind::Word, |cursor| {
        cursor.skip(is_whitespace);
        cursor.one_or_more(is_word_char)
    }),
    (Kind::Quoted, |cursor| quoted(cursor, is_quoted_char)),
    (Kind::List, |cursor| quoted(cursor, is_list_char)),
];

/// The position of a rule in the text.
struct Cursor<'a> {
    rest: &'a str,
    has_dropped: bool,
}

impl Cursor<'_> {
    fn one(&mut self, is_wanted: fn(char) -> bool) -> bool {
        match self.rest.chars().next() {
            Some(character) if is_wanted(character) => {
                self.rest = &self.rest[character.len_utf8()..];
                true
            }
            _ => false,
        }
    }

    /// Skips any number of characters; always true so that it chains.
    fn skip(&mut self, is_wanted: fn(char) -> bool) -> bool {
        self.rest = self.rest.trim_start_matches(is_wanted);
        true
    }

    fn one_or_more(&mut self, is_wanted: fn(char) -> bool) -> bool {
        self.one(is_wanted) && self.skip(is_wanted)
    }

    /// Reads an ASCII word. When its first character fits and a later one does not, the read characters stay consumed and the one
    /// that did not fit is dropped, unless the text ends there: the reference does not backtrack.
    fn word(&mut self, word: &str) -> bool {
        let fitting = self.rest.bytes().zip(word.bytes()).take_while(|(left, right)| left == right).count();
        // Only ASCII bytes were equal, so this is a character boundary.
        self.rest = &self.rest[fitting..];
        if fitting > 0
            && fitting < word.len()
            && let Some(character) = self.rest.chars().next()
        {
            self.rest = &self.rest[character.len_utf8()..];
            self.has_dropped = true;
        }
        fitting == word.len()
    }
}

fn in_word(cursor: &mut Cursor<'_>) -> bool {
    if !cursor.word("in") {
        return false;
    }
    while cursor.word("in") {}
    cursor.one_or_more(is_word_char)
}

fn connective(cursor: &mut Cursor<'_>, word: &str, symbol: &str) -> bool {
    cursor.one_or_more(is_whitespace)
        && (cursor.word(word) || cursor.word(symbol))
        && cursor.one_or_more(is_whitespace)
}

fn order(cursor: &mut Cursor<'_>) -> bool {
    cursor.skip(is_whitespace);
    cursor.one(|character| character == '=');
    let has_sign = cursor.one(|character| matches!(character, '<' | '>'));
    if has_sign {
        cursor.one(|character| character == '=');
        cursor.skip(is_whitespace);
    }
    has_sign
}

fn in_operator(cursor: &mut Cursor<'_>) -> bool {
    cursor.skip(is_whitespace);
    cursor.word("in") && cursor.skip(is_whitespace)
}

fn equality(cursor: &mut Cursor<'_>) -> bool {
    cursor.skip(is_whitespace);
    let fits = cursor.word("!=") || {
        let has_sign = cursor.one(|character| character == '=');
        if has_sign {
            cursor.one(|character| character == '=');
        }
        has_sign
    };
    fits && cursor.skip(is_whitespace)
}

fn version_range(cursor: &mut Cursor<'_>) -> bool {
    cursor.skip(is_whitespace);
    cursor.one(|character| matches!(character, '(' | '['))
        && version(cursor)
        && cursor.skip(is_whitespace)
        && cursor.one(|character| character == ',')
        && cursor.skip(is_whitespace)
        // Digits consumed by the first alternative stay consumed.
        && (version(cursor) || cursor.word("INFINITY"))
        && cursor.one(|character| matches!(character, ']' | ')'))
}

/// Reads three groups of digits, each of which may be empty.
fn version(cursor: &mut Cursor<'_>) -> bool {
    let digits = |cursor: &mut Cursor<'_>| cursor.skip(|character| character.is_ascii_digit());
    let dot = |cursor: &mut Cursor<'_>| cursor.one(|character| character == '.');
    digits(cursor) && dot(cursor) && digits(cursor) && dot(cursor) && digits(cursor)
}

fn number(cursor: &mut Cursor<'_>) -> bool {
    let is_digit = |character: char| character.is_ascii_digit();
    cursor.skip(is_whitespace);
    cursor.one(|character| character == '-');
    if !cursor.one_or_more(is_digit) {
        return false;
    }
    if cursor.one(|character| character == '.') {
        cursor.skip(is_digit);
    }
    true
}

fn quoted(cursor: &mut Cursor<'_>, is_wanted: fn(char) -> bool) -> bool {
    let is_quote = |character| character == '"';
    cursor.skip(is_whitespace);
    cursor.one(is_quote) && cursor.one_or_more(is_wanted) && cursor.one(is_quote)
}

pub(super) fn is_whitespace(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\t' | ' ')
}

fn is_word_char(character: char) -> bool {
    is_letter_or_digit(character) || matches!(character, '_' | '-' | '/' | '!' | '?' | '+' | '~' | '\'' | '.')
}

fn is_quoted_char(character: char) -> bool {
    is_word_char(character) || matches!(character, ' ' | '\t')
}

fn is_list_char(character: char) -> bool {
    is_quoted_char(character) || character == ','
}

fn is_letter_or_digit(character: char) -> bool {
    matches!(
        character,
        'a'..='z'
            | 'A'..='Z'
            | '0'..='9'
            | '\u{00A0}'..='\u{00FF}' // Latin-1 supplement
            | '\u{1100}'..='\u{11FF}' // hangul
            | '\u{20A0}'..='\u{20CF}' // currency signs
            | '\u{3040}'..='\u{30FF}' // hiragana and katakana
            | '\u{4E00}'..='\u{9FFF}' // CJK
            | '\u{AC00}'..='\u{D7AF}' // hangul syllables
            | '\u{FF00}'..='\u{FFEF}' // half and full width forms
    )
}
