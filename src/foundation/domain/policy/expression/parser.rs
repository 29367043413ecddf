//! The grammar of expressions.
//!
//! Recursive descent that emits operations as it reads. Only parentheses, `not` and `**` recurse, and their depth is bounded.
//! Source: orchestration A5.1.

use super::arithmetic::Binary;
use super::lexer::{Lexeme, Token, syntax, tokens};
use super::limits::{MAX_LENGTH, MAX_NESTING};
use super::program::{Operation, Piece};
use super::{ExpressionError, SyntaxProblem, Value};

/// The left-associative operators, from those that bind least.
const LEVELS: [&[Binary]; 5] = [
    &[Binary::BitOr],
    &[Binary::BitXor],
    &[Binary::BitAnd],
    &[Binary::Add, Binary::Subtract],
    &[Binary::Multiply, Binary::Divide, Binary::IntegerDivide, Binary::Modulo],
];

/// Compiles a text.
///
/// # Errors
/// As those of [`super::Expression::parse`].
pub(super) fn parse(text: &str) -> Result<Vec<Operation>, ExpressionError> {
    if text.len() > MAX_LENGTH {
        return Err(ExpressionError::TooLong { length: text.len() });
    }
    let lexemes = tokens(text)?;
    let mut parser = Parser { text, lexemes, position: 0, nesting: 0, operations: Vec::new() };
    let is_wrapped = parser.skip_if_next("$(");
    let is_empty = parser.rest().is_empty() || (is_wrapped && parser.is_next(")"));
    if !is_empty {
        parser.either()?;
    }
    if is_wrapped {
        parser.require(")")?;
    }
    if !parser.rest().is_empty() {
        return Err(parser.problem(SyntaxProblem::OperatorExpected));
    }
    Ok(parser.operations)
}

type Parsed = Result<(), ExpressionError>;

struct Parser<'a> {
    text: &'a str,
    lexemes: Vec<Lexeme>,
    position: usize,
    nesting: usize,
    operations: Vec<Operation>,
}

impl Parser<'_> {
    fn rest(&self) -> &[Lexeme] {
        &self.lexemes[self.position..]
    }

    fn next(&self) -> Option<&Token> {
        self.rest().first().map(|lexeme| &lexeme.token)
    }

    fn is_next(&self, word: &str) -> bool {
        matches!(self.next(), Some(Token::Symbol(next) | Token::Keyword(next)) if *next == word)
    }

    /// Skips a symbol or keyword if it is next.
    fn skip_if_next(&mut self, word: &str) -> bool {
        let is_next = self.is_next(word);
        self.position += usize::from(is_next);
        is_next
    }

    fn require(&mut self, closing: &'static str) -> Parsed {
        if self.skip_if_next(closing) {
            Ok(())
        } else {
            Err(self.problem(SyntaxProblem::ClosingExpected { closing }))
        }
    }

    /// The error at the next token, or at the end of the text.
    fn problem(&self, problem: SyntaxProblem) -> ExpressionError {
        let offset = self.rest().first().map_or(self.text.len(), |lexeme| lexeme.start);
        syntax(self.text, offset, problem)
    }

    fn emit(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// Parses one level deeper.
    fn nested(&mut self, parse: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.nesting == MAX_NESTING {
            return Err(self.problem(SyntaxProblem::TooDeep));
        }
        self.nesting += 1;
        parse(self)?;
        self.nesting -= 1;
        Ok(())
    }

    fn either(&mut self) -> Parsed {
        self.connected("or", true, Self::both)
    }

    fn both(&mut self) -> Parsed {
        self.connected("and", false, Self::negation)
    }

    /// Operands joined by a keyword; one whose truth is `on` decides.
    fn connected(&mut self, keyword: &str, on: bool, operand: fn(&mut Self) -> Parsed) -> Parsed {
        operand(self)?;
        let mut shortcuts = Vec::new();
        while self.skip_if_next(keyword) {
            shortcuts.push(self.operations.len());
            self.emit(Operation::Shortcut { on, target: 0 });
            operand(self)?;
        }
        if !shortcuts.is_empty() {
            self.emit(Operation::Truth);
        }
        let end = self.operations.len();
        for shortcut in shortcuts {
            self.operations[shortcut] = Operation::Shortcut { on, target: end };
        }
        Ok(())
    }

    fn negation(&mut self) -> Parsed {
        if !self.skip_if_next("not") {
            return self.comparison();
        }
        self.nested(Self::negation)?;
        self.emit(Operation::Not);
        Ok(())
    }

    fn comparison(&mut self) -> Parsed {
        self.binary(&LEVELS)?;
        if let Some(Token::Comparison(comparison)) = self.next() {
            let comparison = *comparison;
            self.position += 1;
            self.binary(&LEVELS)?;
            self.emit(Operation::Compare(comparison));
            return Ok(());
        }
        let is_negated = self.is_next("not");
        let follows = self.rest().get(usize::from(is_negated)).map(|lexeme| &lexeme.token);
        if follows == Some(&Token::Keyword("in")) {
            self.position += 1 + usize::from(is_negated);
            return self.list(is_negated);
        }
        Ok(())
    }

    fn binary(&mut self, levels: &[&[Binary]]) -> Parsed {
        let Some((operators, higher)) = levels.split_first() else { return self.unary() };
        self.binary(higher)?;
        while let Some(operator) = operators.iter().find(|operator| self.is_next(operator.symbol())) {
            self.position += 1;
            self.binary(higher)?;
            self.emit(Operation::Binary(*operator));
        }
        Ok(())
    }

    fn unary(&mut self) -> Parsed {
        let sign = ["-", "+"].into_iter().find(|sign| self.skip_if_next(sign));
        self.power()?;
        self.sign(sign);
        Ok(())
    }

    /// Applies a sign to the last operand, at once if it is a number.
    fn sign(&mut self, sign: Option<&'static str>) {
        match (sign, self.operations.last_mut()) {
            (None, _) => {}
            (Some("-"), Some(Operation::Constant(Value::Number(number)))) => *number = -*number,
            (Some(sign), _) => self.emit(Operation::Sign(sign)),
        }
    }

    fn power(&mut self) -> Parsed {
        self.atom()?;
        if self.skip_if_next("**") {
            self.nested(Self::unary)?;
            self.emit(Operation::Binary(Binary::Power));
        }
        Ok(())
    }

    /// The list after `in`.
    fn list(&mut self, is_negated: bool) -> Parsed {
        let pairs = [("(", ")"), ("[", "]")];
        let Some((_, closing)) = pairs.into_iter().find(|(opening, _)| self.skip_if_next(opening)) else {
            return Err(self.problem(SyntaxProblem::ListExpected));
        };
        let start = self.operations.len();
        let mut count = 0;
        while !self.is_next(closing) {
            if self.rest().is_empty() || self.is_next(")") || self.is_next("]") {
                return Err(self.problem(SyntaxProblem::ClosingExpected { closing }));
            }
            let has_comma = count > 0 && self.skip_if_next(",");
            if count > 0 && !has_comma && self.touches_previous() {
                return Err(self.problem(SyntaxProblem::SeparatorExpected));
            }
            self.item()?;
            count += 1;
        }
        self.require(closing)?;
        if self.operations[start..].iter().all(|one| matches!(one, Operation::Constant(_))) {
            let items = self.operations.drain(start..).filter_map(|one| match one {
                Operation::Constant(value) => Some(value),
                _ => None,
            });
            let items = items.collect();
            self.emit(Operation::InConstants { items, is_negated });
        } else {
            self.emit(Operation::In { count, is_negated });
        }
        Ok(())
    }

    fn item(&mut self) -> Parsed {
        let sign = self.skip_if_next("-").then_some("-");
        self.atom()?;
        self.sign(sign);
        Ok(())
    }

    /// Returns whether nothing stands between the next token and the one before it.
    fn touches_previous(&self) -> bool {
        let previous = self.position.checked_sub(1).and_then(|position| self.lexemes.get(position));
        previous.zip(self.rest().first()).is_some_and(|(previous, next)| previous.end == next.start)
    }

    fn atom(&mut self) -> Parsed {
        if self.skip_if_next("(") {
            self.nested(Self::either)?;
            return self.require(")");
        }
        let operation = match self.next() {
            Some(Token::Number(number)) => Operation::Constant(Value::Number(*number)),
            Some(Token::Keyword("true")) => Operation::Constant(Value::Boolean(true)),
            Some(Token::Keyword("false")) => Operation::Constant(Value::Boolean(false)),
            Some(Token::Word(word)) => Operation::Constant(Value::text(word.clone())),
            Some(Token::Reference(reference)) => Operation::Reference(reference.clone()),
            Some(Token::Text(pieces)) => match pieces.as_slice() {
                [Piece::Literal(literal)] => Operation::Constant(Value::text(literal.clone())),
                pieces => Operation::Template(pieces.to_vec()),
            },
            _ => return Err(self.problem(SyntaxProblem::ValueExpected)),
        };
        self.position += 1;
        self.emit(operation);
        Ok(())
    }
}
