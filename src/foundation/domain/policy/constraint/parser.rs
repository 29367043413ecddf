//! Acceptance of a constraint, and its tree.
//!
//! The reference parses a constraint twice, with two parsers that differ: the first only decides whether the text is valid, the
//! second builds the tree. The second stops at the first unmatched closing parenthesis and ignores the remaining text
//! (`a == b) OR (c == d` is valid and means `a == b`), and it fails on a few texts that the first accepts (`()a == b`). Both are
//! kept separate here as well: [`accept`] and [`build`].
//! Source: agreement-protocol 3.4.

use super::SyntaxProblem;
use super::lexer::{Kind, Token, first_token};
use super::limits;
use super::tree::{Expression, Operator, Predicate};
use crate::version::VersionRange;

/// The syntax error, and the text from there on.
#[derive(Debug)]
pub(super) enum Problem<'a> {
    Syntax { reason: SyntaxProblem, at: &'a str },
    TooDeep,
    TooManyPredicates,
}

type Parsed<'a, T> = Result<(T, &'a str), Problem<'a>>;

/// The connective of two predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connective {
    And,
    Or,
    Open,
    Close,
    End,
}

/// Checks whether a text is a valid constraint, and takes the number of its predicates from those that are left.
///
/// The tree never has more of them than were counted here.
pub(super) fn accept<'a>(text: &'a str, left: &mut usize) -> Result<(), Problem<'a>> {
    let mut rest = text;
    let mut open = Vec::new();
    let mut surplus = Vec::new();
    while !rest.is_empty() {
        let has_predicate;
        (has_predicate, rest) = next_predicate(rest).map(|(predicate, rest)| (predicate.is_some(), rest))?;
        if has_predicate {
            *left = left.checked_sub(1).ok_or(Problem::TooManyPredicates)?;
        }
        loop {
            match next_connective(rest) {
                Ok((Connective::Open, after)) => {
                    open.push(rest);
                    rest = after;
                }
                Ok((Connective::Close, after)) => {
                    if open.pop().is_none() {
                        surplus.push(rest);
                    }
                    rest = after;
                }
                Ok((_, after)) => {
                    rest = after;
                    break;
                }
                Err(problem) if has_predicate => return Err(problem),
                // After parentheses a predicate may follow, which is then no connective.
                Err(_) => break,
            }
        }
    }
    // Only their numbers must be equal.
    match (open.first(), surplus.first()) {
        _ if open.len() == surplus.len() => Ok(()),
        (Some(at), _) if open.len() > surplus.len() => refuse(SyntaxProblem::UnmatchedParentheses, at),
        (_, at) => refuse(SyntaxProblem::UnmatchedParentheses, at.unwrap_or(&text)),
    }
}

/// Builds the tree of a text that [`accept`] has accepted.
pub(super) fn build(text: &str) -> Result<Expression, Problem<'_>> {
    build_level(text, 0).map(|(expression, _ignored)| expression)
}

fn build_level(text: &str, depth: usize) -> Parsed<'_, Expression> {
    if depth > limits::MAX_NESTING {
        return Err(Problem::TooDeep);
    }
    let mut rest = text;
    let mut alternatives = Vec::new();
    let mut conjunction = Vec::new();
    loop {
        let (predicate, after) = next_predicate(rest)?;
        conjunction.extend(predicate.map(Expression::Predicate));
        let mut connective;
        (connective, rest) = next_connective(after)?;
        if connective == Connective::Open {
            let inner;
            (inner, rest) = build_level(rest, depth + 1)?;
            conjunction.push(inner);
            (connective, rest) = next_connective(rest)?;
        }
        match connective {
            // A parenthesis right after a closed one is handled at the start of the next iteration.
            Connective::And | Connective::Open => {}
            Connective::Or => alternatives.push(Expression::all(std::mem::take(&mut conjunction))),
            Connective::Close | Connective::End => {
                alternatives.push(Expression::all(conjunction));
                return Ok((Expression::any(alternatives), rest));
            }
        }
    }
}

/// Parses the predicate at the start of the text: none when the text is blank or begins with a parenthesis.
fn next_predicate(text: &str) -> Parsed<'_, Option<Predicate>> {
    if text.trim().is_empty() {
        return Ok((None, ""));
    }
    let (name, after_name) = next_token(text, SyntaxProblem::NameExpected)?;
    match name.kind {
        Kind::Open | Kind::Close => return Ok((None, text)),
        kind if !kind.is_name() => return refuse(SyntaxProblem::NameExpected, text),
        _ => {}
    }
    let (second, after_second) = next_token(after_name, SyntaxProblem::OperatorExpected)?;
    let (property, operator, value, rest) = if second.kind.is_operator() {
        let (value, rest) = next_token(after_second, SyntaxProblem::ValueExpected)?;
        require_value(value, after_second)?;
        check_pair(second, value, after_second)?;
        (name.text, Operator::from_text(second.text.trim()), value, rest)
    } else {
        // A name that ends in `in` contains the operator, and then any value is accepted.
        let Some(property) = name.text.strip_suffix("in").filter(|_| name.text.len() > 3) else {
            return refuse(SyntaxProblem::OperatorExpected, after_name);
        };
        require_value(second, after_name)?;
        (property, Operator::In, second, after_second)
    };
    let source = &text[..text.len() - rest.len()];
    Ok((Some(Predicate::new(property, operator, value.text.trim(), source)), rest))
}

/// Parses the connective between two predicates.
fn next_connective(text: &str) -> Parsed<'_, Connective> {
    if text.trim().is_empty() {
        return Ok((Connective::End, ""));
    }
    let (token, rest) = next_token(text, SyntaxProblem::ConnectiveExpected)?;
    let connective = match token.kind {
        Kind::And => Connective::And,
        Kind::Or => Connective::Or,
        Kind::Open => Connective::Open,
        Kind::Close => Connective::Close,
        _ => return refuse(SyntaxProblem::ConnectiveExpected, text),
    };
    Ok((connective, rest))
}

fn next_token(text: &str, expected: SyntaxProblem) -> Parsed<'_, Token<'_>> {
    match first_token(text) {
        Ok(Some(token)) => Ok((token, &text[token.text.len()..])),
        Ok(None) => refuse(expected, text),
        Err(reason) => refuse(reason, text),
    }
}

fn require_value<'a>(token: Token<'_>, at: &'a str) -> Result<(), Problem<'a>> {
    if token.kind.is_value() { Ok(()) } else { refuse(SyntaxProblem::ValueExpected, at) }
}

/// Checks whether an operator may precede a value of that kind.
fn check_pair<'a>(operator: Token<'_>, value: Token<'_>, at: &'a str) -> Result<(), Problem<'a>> {
    match (operator.kind, value.kind) {
        (Kind::Equality, Kind::VersionRange) => refuse(SyntaxProblem::RangeNeedsIn, at),
        (Kind::Equality, Kind::List) => refuse(SyntaxProblem::ListNeedsIn, at),
        (Kind::Order, _) if super::number::parse_number(value.text).is_none() => {
            refuse(SyntaxProblem::NumberExpected, at)
        }
        (Kind::In, Kind::VersionRange) if VersionRange::parse(value.text).is_err() => {
            refuse(SyntaxProblem::NotARange, at)
        }
        (Kind::In, Kind::List | Kind::Quoted | Kind::Version | Kind::VersionRange) => Ok(()),
        (Kind::In, _) => refuse(SyntaxProblem::InNeedsSet, at),
        _ => Ok(()),
    }
}

fn refuse<T>(reason: SyntaxProblem, at: &str) -> Result<T, Problem<'_>> {
    Err(Problem::Syntax { reason, at })
}
