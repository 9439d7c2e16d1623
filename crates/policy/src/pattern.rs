//! Wildcard patterns with policy variables, compiled once and matched many times.
//!
//! `*` is any run of characters, `?` one character. In an ARN pattern the fields before the sixth keep their
//! wildcards inside the field, except that a `*` which ends a field may run across colons, and a pattern with
//! fewer than six fields is completed with `*` fields (identity.md R41). The text put in for a variable is never a
//! pattern (R44). Matching costs at most text × pattern comparisons, all charged to the [`Budget`].

use std::cell::Cell;

use crate::context::{Facts, Values};
use crate::limits::STEPS_MAX;

/// Comparisons left for one decision. Spent without end, it reads as exhausted and the decision is a deny.
pub(crate) struct Budget {
    left: Cell<u64>,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self {
            left: Cell::new(STEPS_MAX),
        }
    }

    /// Takes `steps`; false once nothing is left.
    pub(crate) fn charge(&self, steps: usize) -> bool {
        let left = self.left.get().saturating_sub(steps as u64 + 1);
        self.left.set(left);
        left > 0
    }

    pub(crate) fn exhausted(&self) -> bool {
        self.left.get() == 0
    }
}

/// What the characters of a pattern mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// Wildcards anywhere, without case: actions.
    Action,
    /// Wildcards, field by field: resources and ARN conditions.
    Arn,
    /// Wildcards anywhere, with case: `StringLike`.
    Glob,
    /// No wildcards, with case: `StringEquals`.
    Exact,
    /// No wildcards, without case: `StringEqualsIgnoreCase`, `Bool`.
    ExactFolded,
}

impl Flavor {
    fn folds(self) -> bool {
        matches!(self, Flavor::Action | Flavor::ExactFolded)
    }

    fn has_wildcards(self) -> bool {
        matches!(self, Flavor::Action | Flavor::Arn | Flavor::Glob)
    }
}

/// A policy variable: the folded key, and the text to use where the request has no single value for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    key: String,
    default: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `?`; `crosses` a colon or not.
    One {
        crosses: bool,
    },
    /// `*`; `crosses` colons or not.
    Run {
        crosses: bool,
    },
    Variable(Variable),
}

/// The quickest way to match a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Everything,
    Literal(String),
    Prefix(String),
    /// No run is held inside a field, so remembering the last run is enough.
    Greedy(Vec<Token>),
    /// Some run is held inside a field: a set of positions is walked.
    Fielded(Vec<Token>),
    /// Variables: expanded for each request.
    Open(Vec<Token>),
}

/// Why a pattern cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternFault {
    #[error("the variable in \"{0}\" is not closed or not well formed")]
    Variable(String),
    #[error("a variable may only stand in the last part of the ARN \"{0}\"")]
    VariablePlace(String),
}

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    flavor: Flavor,
    form: Form,
}

/// How a text compares with a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    Yes,
    No,
    /// A variable of the pattern has no value in this request.
    Unresolved,
}

impl From<bool> for Match {
    fn from(matched: bool) -> Self {
        if matched { Match::Yes } else { Match::No }
    }
}

impl Pattern {
    /// Compiles `source`. `variables` is false for documents of version 2008-10-17 and for actions.
    pub(crate) fn compile(source: &str, flavor: Flavor, variables: bool) -> Result<Self, PatternFault> {
        let tokens = complete(tokenize(source, flavor, variables)?, flavor);
        let form = Form::choose(tokens);
        Ok(Self { flavor, form })
    }

    /// As [`Pattern::compile`], and variables only in the sixth field, as resources demand.
    pub(crate) fn compile_resource(source: &str, variables: bool) -> Result<Self, PatternFault> {
        if variables {
            let head_end = source
                .match_indices(':')
                .nth(4)
                .map_or(source.len(), |(at, _)| at);
            if source[..head_end].contains("${") {
                return Err(PatternFault::VariablePlace(source.to_owned()));
            }
        }
        Self::compile(source, Flavor::Arn, variables)
    }

    /// Compares. For folding flavours `text` may have any case.
    pub(crate) fn matches(&self, text: &str, facts: &dyn Facts, budget: &Budget) -> Match {
        if self.flavor.folds() {
            let folded = fold(text);
            self.matches_folded(&folded, facts, budget)
        } else {
            self.matches_folded(text, facts, budget)
        }
    }

    /// Compares a text that is already folded, where the flavour folds at all.
    pub(crate) fn matches_folded(&self, text: &str, facts: &dyn Facts, budget: &Budget) -> Match {
        match &self.form {
            Form::Everything => Match::Yes,
            Form::Literal(literal) => (budget.charge(literal.len()) && literal == text).into(),
            Form::Prefix(prefix) => (budget.charge(prefix.len()) && text.starts_with(prefix.as_str())).into(),
            Form::Greedy(tokens) => greedy(tokens, text, budget).into(),
            Form::Fielded(tokens) => fielded(tokens, text, budget).into(),
            Form::Open(tokens) => match expand(tokens, facts, self.flavor) {
                Some(tokens) => fielded(&tokens, text, budget).into(),
                None => Match::Unresolved,
            },
        }
    }
}

/// Folds case the way folding patterns do.
pub(crate) fn fold(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

fn tokenize(source: &str, flavor: Flavor, variables: bool) -> Result<Vec<Token>, PatternFault> {
    let folded;
    let mut rest = source;
    if flavor.folds() && !(variables && source.contains("${")) {
        folded = fold(source);
        rest = &folded;
    }
    let mut tokens = Vec::with_capacity(rest.len());
    let mut colons = 0_usize;
    while let Some(next) = rest.chars().next() {
        if variables && rest.starts_with("${") {
            let fault = || PatternFault::Variable(source.to_owned());
            let (inside, after) = split_variable(rest).ok_or_else(fault)?;
            rest = after;
            match inside {
                "*" | "?" | "$" => tokens.extend(inside.chars().map(Token::Char)),
                _ => tokens.push(Token::Variable(parse_variable(inside).ok_or_else(fault)?)),
            }
            continue;
        }
        rest = &rest[next.len_utf8()..];
        let free = flavor != Flavor::Arn || colons >= 5;
        match next {
            '*' if flavor.has_wildcards() => {
                let ends_field = rest.is_empty() || rest.starts_with(':');
                tokens.push(Token::Run {
                    crosses: free || ends_field,
                });
            }
            '?' if flavor.has_wildcards() => tokens.push(Token::One { crosses: free }),
            _ => {
                colons += usize::from(next == ':');
                if flavor.folds() {
                    tokens.extend(next.to_lowercase().map(Token::Char));
                } else {
                    tokens.push(Token::Char(next));
                }
            }
        }
    }
    Ok(tokens)
}

/// Splits `${inside}after`; a quoted default may hold a closing brace.
fn split_variable(text: &str) -> Option<(&str, &str)> {
    let body = text.strip_prefix("${")?;
    let mut quoted = false;
    for (at, c) in body.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '}' if !quoted => return Some((&body[..at], &body[at + 1..])),
            _ => {}
        }
    }
    None
}

fn parse_variable(inside: &str) -> Option<Variable> {
    let (key, default) = match inside.split_once(',') {
        Some((key, rest)) => {
            let text = rest.trim().strip_prefix('\'')?.strip_suffix('\'')?;
            (key.trim(), Some(text.to_owned()))
        }
        None => (inside.trim(), None),
    };
    let well_formed = key.contains(':')
        && !key
            .chars()
            .any(|c| matches!(c, '$' | '{' | '}' | '\'' | '*' | '?'));
    well_formed.then(|| Variable {
        key: key.to_ascii_lowercase(),
        default,
    })
}

/// Completes an ARN pattern of fewer than six fields.
fn complete(mut tokens: Vec<Token>, flavor: Flavor) -> Vec<Token> {
    if flavor != Flavor::Arn || tokens.iter().all(|t| matches!(t, Token::Run { .. })) && !tokens.is_empty() {
        return tokens;
    }
    let open = tokens.iter().any(|t| matches!(t, Token::Variable(_)));
    let colons = tokens.iter().filter(|t| **t == Token::Char(':')).count();
    if !open {
        for _ in colons..5 {
            tokens.push(Token::Char(':'));
            tokens.push(Token::Run { crosses: true });
        }
    }
    tokens
}

impl Form {
    fn choose(tokens: Vec<Token>) -> Form {
        let literal = |tokens: &[Token]| -> Option<String> {
            tokens
                .iter()
                .map(|t| if let Token::Char(c) = t { Some(*c) } else { None })
                .collect()
        };
        if tokens.iter().any(|t| matches!(t, Token::Variable(_))) {
            return Form::Open(tokens);
        }
        if let Some(text) = literal(&tokens) {
            return Form::Literal(text);
        }
        if let Some((Token::Run { crosses: true }, head)) = tokens.split_last()
            && let Some(text) = literal(head)
        {
            return if text.is_empty() {
                Form::Everything
            } else {
                Form::Prefix(text)
            };
        }
        if tokens.contains(&Token::Run { crosses: false }) {
            return Form::Fielded(tokens);
        }
        Form::Greedy(tokens)
    }
}

fn takes(token: &Token, c: char) -> bool {
    match token {
        Token::Char(expected) => *expected == c,
        Token::One { crosses } | Token::Run { crosses } => *crosses || c != ':',
        Token::Variable(_) => false,
    }
}

/// Two pointers: on a mismatch the last run swallows one character more.
fn greedy(tokens: &[Token], text: &str, budget: &Budget) -> bool {
    let mut at = 0;
    let mut rest = text;
    let mut retry: Option<(usize, &str)> = None;
    loop {
        if !budget.charge(1) {
            return false;
        }
        let Some(c) = rest.chars().next() else {
            return tokens[at..].iter().all(|t| matches!(t, Token::Run { .. }));
        };
        match tokens.get(at) {
            Some(Token::Run { .. }) => {
                at += 1;
                retry = Some((at, rest));
            }
            Some(token) if takes(token, c) => {
                at += 1;
                rest = &rest[c.len_utf8()..];
            }
            _ => {
                let Some((after, from)) = retry else { return false };
                let Some(skipped) = from.chars().next() else {
                    return false;
                };
                rest = &from[skipped.len_utf8()..];
                at = after;
                retry = Some((after, rest));
            }
        }
    }
}

/// Walks the set of pattern positions that the text read so far can reach.
fn fielded(tokens: &[Token], text: &str, budget: &Budget) -> bool {
    let mut reached = vec![false; tokens.len() + 1];
    let mut next = reached.clone();
    reached[0] = true;
    skip_runs(tokens, &mut reached);
    for c in text.chars() {
        if !budget.charge(tokens.len()) {
            return false;
        }
        next.fill(false);
        for (at, token) in tokens.iter().enumerate() {
            if reached[at] && takes(token, c) {
                let stays = matches!(token, Token::Run { .. });
                next[if stays { at } else { at + 1 }] = true;
            }
        }
        skip_runs(tokens, &mut next);
        std::mem::swap(&mut reached, &mut next);
    }
    reached[tokens.len()]
}

/// A run may also be empty.
fn skip_runs(tokens: &[Token], reached: &mut [bool]) {
    for (at, token) in tokens.iter().enumerate() {
        if reached[at] && matches!(token, Token::Run { .. }) {
            reached[at + 1] = true;
        }
    }
}

/// Puts in the request's values; `None` where a variable has no single value and no default.
fn expand(tokens: &[Token], facts: &dyn Facts, flavor: Flavor) -> Option<Vec<Token>> {
    let mut expanded = Vec::with_capacity(tokens.len() + 32);
    for token in tokens {
        let Token::Variable(variable) = token else {
            expanded.push(token.clone());
            continue;
        };
        let found = facts.find(&variable.key);
        let text = match (&found, &variable.default) {
            (Some(Values::One(value)), _) => value.as_ref(),
            (_, Some(default)) => default.as_str(),
            _ => return None,
        };
        if flavor.folds() {
            expanded.extend(fold(text).chars().map(Token::Char));
        } else {
            expanded.extend(text.chars().map(Token::Char));
        }
    }
    Some(expanded)
}
