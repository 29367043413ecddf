//! Tokens of expressions.

use super::program::{Comparison, Piece};
use super::{ExpressionError, Reference, SyntaxProblem};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Number(f64),
    /// A quoted text.
    Text(Vec<Piece>),
    Reference(Reference),
    /// A word that is not a keyword.
    Word(String),
    /// `and`, `or`, `not`, `in`, `true` or `false`.
    Keyword(&'static str),
    Comparison(Comparison),
    /// An arithmetic or bitwise operator, a parenthesis, a bracket, a comma, or `$(`.
    Symbol(&'static str),
}

/// A token with its position in the text, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lexeme {
    pub(super) token: Token,
    pub(super) start: usize,
    pub(super) end: usize,
}

const KEYWORDS: [&str; 6] = ["and", "or", "not", "in", "true", "false"];

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<=", Comparison::LessOrEqual),
    (">", Comparison::Greater),
    ("<", Comparison::Less),
];

/// Other spellings of keywords.
const CONNECTIVES: [(&str, &str); 2] = [("&&", "and"), ("||", "or")];

/// The longer symbols come before those that they begin with.
const SYMBOLS: [&str; 16] =
    ["$(", "**", "//", "*", "/", "%", "+", "-", "|", "^", "&", "(", ")", "[", "]", ","];

/// Splits a text into tokens.
///
/// # Errors
/// [`ExpressionError::Syntax`] at the first character that belongs to no token.
pub(super) fn tokens(text: &str) -> Result<Vec<Lexeme>, ExpressionError> {
    let mut lexemes = Vec::new();
    let mut start = 0;
    loop {
        let rest = &text[start..];
        let blank = rest.len() - rest.trim_start().len();
        start += blank;
        let rest = &text[start..];
        if rest.is_empty() {
            return Ok(lexemes);
        }
        let (token, length) =
            first_token(rest).map_err(|(offset, problem)| syntax(text, start + offset, problem))?;
        lexemes.push(Lexeme { token, start, end: start + length });
        start += length;
    }
}

/// Creates the error of a syntax problem at an offset in bytes.
pub(super) fn syntax(text: &str, offset: usize, problem: SyntaxProblem) -> ExpressionError {
    ExpressionError::Syntax { column: text[..offset].chars().count() + 1, problem }
}

/// A token and its length in bytes, or the offset of a problem.
type Scanned = Result<(Token, usize), (usize, SyntaxProblem)>;

fn first_token(rest: &str) -> Scanned {
    let first = rest.chars().next().unwrap_or_default();
    match first {
        '0'..='9' => number(rest),
        'a'..='z' | 'A'..='Z' | '_' => Ok(word(rest)),
        '"' | '\'' => quoted(rest, first),
        '{' => reference(rest)
            .map(|(reference, length)| (Token::Reference(reference), length))
            .ok_or((0, SyntaxProblem::NotAReference)),
        _ => {
            let comparison = COMPARISONS.iter().find(|(symbol, _)| rest.starts_with(symbol));
            if let Some((symbol, comparison)) = comparison {
                return Ok((Token::Comparison(*comparison), symbol.len()));
            }
            // As in `constraints`.
            if let Some((symbol, keyword)) = CONNECTIVES.iter().find(|(symbol, _)| rest.starts_with(symbol)) {
                return Ok((Token::Keyword(keyword), symbol.len()));
            }
            let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
            symbol
                .map(|symbol| (Token::Symbol(symbol), symbol.len()))
                .ok_or((0, SyntaxProblem::UnknownCharacter { character: first }))
        }
    }
}

/// Digits, a fraction and an exponent; neither a letter nor another fraction may follow.
fn number(rest: &str) -> Scanned {
    let digits = |from: usize| from + rest[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut length = digits(0);
    if rest[length..].starts_with('.') && digits(length + 1) > length + 1 {
        length = digits(length + 1);
    }
    if rest[length..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[length + 1..].starts_with(['+', '-']));
        let end = digits(length + 1 + sign);
        if end > length + 1 + sign {
            length = end;
        }
    }
    let is_ended =
        !rest[length..].starts_with(|next: char| next.is_alphanumeric() || matches!(next, '_' | '.'));
    let number = rest[..length].parse().ok().filter(|number: &f64| number.is_finite());
    number
        .filter(|_| is_ended)
        .map(|number| (Token::Number(number), length))
        .ok_or((0, SyntaxProblem::NotANumber))
}

fn word(rest: &str) -> (Token, usize) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let length = rest.bytes().take_while(is_part).count();
    let word = &rest[..length];
    let keyword = KEYWORDS.into_iter().find(|keyword| *keyword == word);
    (keyword.map_or_else(|| Token::Word(word.to_owned()), Token::Keyword), length)
}

fn quoted(rest: &str, quote: char) -> Scanned {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut offset = 1;
    while let Some(next) = rest[offset..].chars().next() {
        match next {
            '\\' => {
                let escaped = rest[offset + 1..].chars().next();
                match escaped {
                    Some(character @ ('"' | '\'' | '\\')) => literal.push(character),
                    _ => return Err((offset, SyntaxProblem::UnknownEscape)),
                }
                offset += 2;
            }
            '{' => {
                let (reference, length) =
                    reference(&rest[offset..]).ok_or((offset, SyntaxProblem::NotAReference))?;
                if !literal.is_empty() {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(Piece::Reference(reference));
                offset += length;
            }
            next if next == quote => {
                if !literal.is_empty() || pieces.is_empty() {
                    pieces.push(Piece::Literal(literal));
                }
                return Ok((Token::Text(pieces), offset + 1));
            }
            next => {
                literal.push(next);
                offset += next.len_utf8();
            }
        }
    }
    Err((0, SyntaxProblem::UnclosedText))
}

/// Reads a reference with its braces; none when the text does not begin with one.
fn reference(rest: &str) -> Option<(Reference, usize)> {
    let name = rest.strip_prefix('{')?;
    let length = name.find(['{', '}']).filter(|end| name[*end..].starts_with('}'))?;
    Some((Reference::of_name(&name[..length])?, length + 2))
}
