//! The `Condition` element: operators, set qualifiers, `IfExists` (identity.md R42–R44).
//!
//! Entries of one block are ANDed, values of one entry are ORed, and a negated operator wants none of them to
//! match. What an absent or empty key means is the table of R43, and [`Condition::holds`] is that table.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ipnet::IpNet;

use crate::context::{Facts, Values};
use crate::pattern::{Budget, Flavor, Match, Pattern, PatternFault};
use crate::value::{Decimal, Instant, parse_network};

/// How many of a key's values must pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantifier {
    /// No qualifier: any value may match; under negation none may.
    Plain,
    /// `ForAllValues:`.
    All,
    /// `ForAnyValue:`.
    Any,
}

/// An ordering relation of numbers and dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Order {
    fn holds<T: Ord>(self, left: &T, right: &T) -> bool {
        match self {
            Order::Equal => left == right,
            Order::Less => left < right,
            Order::LessOrEqual => left <= right,
            Order::Greater => left > right,
            Order::GreaterOrEqual => left >= right,
        }
    }
}

/// What a request value is compared with.
#[derive(Debug, Clone, PartialEq)]
enum Test {
    Text(Vec<Pattern>),
    Number(Order, Vec<Decimal>),
    Date(Order, Vec<Instant>),
    Bytes(Vec<Vec<u8>>),
    Address(Vec<IpNet>),
    /// `Null`: the key is absent for `true`, present for `false`.
    Absent(Vec<bool>),
}

/// The kinds of operator, before their values are read.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text(Flavor),
    Bool,
    Number(Order),
    Date(Order),
    Bytes,
    Address,
    Null,
}

/// A parsed operator name such as `ForAnyValue:StringNotLikeIfExists`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operator {
    quantifier: Quantifier,
    kind: Kind,
    negated: bool,
    if_exists: bool,
}

impl Operator {
    /// Reads an operator name; names are compared without case, as AWS does.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let (quantifier, base) = match lower.split_once(':') {
            None => (Quantifier::Plain, lower.as_str()),
            Some(("forallvalues", base)) => (Quantifier::All, base),
            Some(("foranyvalue", base)) => (Quantifier::Any, base),
            Some(_) => return None,
        };
        let (base, if_exists) = match base.strip_suffix("ifexists") {
            Some(base) => (base, true),
            None => (base, false),
        };
        let (kind, negated) = match base {
            "stringequals" => (Kind::Text(Flavor::Exact), false),
            "stringnotequals" => (Kind::Text(Flavor::Exact), true),
            "stringequalsignorecase" => (Kind::Text(Flavor::ExactFolded), false),
            "stringnotequalsignorecase" => (Kind::Text(Flavor::ExactFolded), true),
            "stringlike" => (Kind::Text(Flavor::Glob), false),
            "stringnotlike" => (Kind::Text(Flavor::Glob), true),
            "arnequals" | "arnlike" => (Kind::Text(Flavor::Arn), false),
            "arnnotequals" | "arnnotlike" => (Kind::Text(Flavor::Arn), true),
            "bool" => (Kind::Bool, false),
            "binaryequals" => (Kind::Bytes, false),
            "ipaddress" => (Kind::Address, false),
            "notipaddress" => (Kind::Address, true),
            "null" if !if_exists && quantifier == Quantifier::Plain => (Kind::Null, false),
            _ => match base.strip_prefix("numeric") {
                Some(rest) => parse_order(rest).map(|(order, negated)| (Kind::Number(order), negated))?,
                None => parse_order(base.strip_prefix("date")?)
                    .map(|(order, negated)| (Kind::Date(order), negated))?,
            },
        };
        Some(Self {
            quantifier,
            kind,
            negated,
            if_exists,
        })
    }
}

fn parse_order(name: &str) -> Option<(Order, bool)> {
    Some(match name {
        "equals" => (Order::Equal, false),
        "notequals" => (Order::Equal, true),
        "lessthan" => (Order::Less, false),
        "lessthanequals" => (Order::LessOrEqual, false),
        "greaterthan" => (Order::Greater, false),
        "greaterthanequals" => (Order::GreaterOrEqual, false),
        _ => return None,
    })
}

/// A condition value that its operator cannot read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueFault {
    #[error("the value \"{0}\" is not one that the operator can compare")]
    Unreadable(String),
    #[error(transparent)]
    Pattern(#[from] PatternFault),
}

/// One operator applied to one key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition {
    key: String,
    quantifier: Quantifier,
    negated: bool,
    if_exists: bool,
    test: Test,
}

impl Condition {
    /// Compiles the entry `key: values` of `operator`.
    pub(crate) fn compile(
        operator: Operator,
        key: &str,
        values: &[String],
        variables: bool,
    ) -> Result<Self, ValueFault> {
        let text = |flavor| -> Result<Test, ValueFault> {
            Ok(Test::Text(
                values
                    .iter()
                    .map(|v| Pattern::compile(v, flavor, variables))
                    .collect::<Result<_, _>>()?,
            ))
        };
        let test = match operator.kind {
            Kind::Text(Flavor::Arn) => {
                let shaped =
                    |v: &str| v.starts_with("arn:") || v.starts_with("${") || v.trim_matches('*').is_empty();
                each(values, |v| shaped(v).then_some(()))?;
                text(Flavor::Arn)?
            }
            Kind::Text(flavor) => text(flavor)?,
            Kind::Bool => {
                let open = |v: &str| variables && v.contains("${");
                each(values, |v| (open(v) || parse_bool(v).is_some()).then_some(()))?;
                text(Flavor::ExactFolded)?
            }
            Kind::Number(order) => Test::Number(order, each(values, Decimal::parse)?),
            Kind::Date(order) => Test::Date(order, each(values, Instant::parse)?),
            Kind::Bytes => Test::Bytes(each(values, |v| BASE64.decode(v).ok())?),
            Kind::Address => Test::Address(each(values, parse_network)?),
            Kind::Null => Test::Absent(each(values, parse_bool)?),
        };
        Ok(Self {
            key: key.to_ascii_lowercase(),
            quantifier: operator.quantifier,
            negated: operator.negated,
            if_exists: operator.if_exists,
            test,
        })
    }

    /// The folded key that this entry asks for.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// True where the request meets this entry.
    pub(crate) fn holds(&self, facts: &dyn Facts, budget: &Budget) -> bool {
        budget.charge(1);
        let found = facts.find(&self.key);
        if let Test::Absent(wanted) = &self.test {
            let absent = found.is_none_or(|values| values.iter().next().is_none());
            return wanted.contains(&absent);
        }
        let Some(values) = found else {
            return match self.quantifier {
                _ if self.if_exists => true,
                Quantifier::All => true,
                Quantifier::Any => false,
                Quantifier::Plain => self.negated,
            };
        };
        let matched = |value: &str| self.test.matches(value, facts, budget);
        match self.quantifier {
            Quantifier::Plain => self.any(&values, matched) != self.negated,
            Quantifier::All => values.iter().all(|value| matched(value) != self.negated),
            Quantifier::Any => self.any(&values, |value| matched(value) != self.negated),
        }
    }

    fn any(&self, values: &Values<'_>, passes: impl Fn(&str) -> bool) -> bool {
        values.iter().any(passes)
    }
}

impl Test {
    /// True where one of the policy's values matches; an unresolved variable matches nothing.
    fn matches(&self, value: &str, facts: &dyn Facts, budget: &Budget) -> bool {
        let spend = |count: usize| budget.charge(count);
        match self {
            Test::Text(patterns) => patterns
                .iter()
                .any(|p| p.matches(value, facts, budget) == Match::Yes),
            Test::Number(order, limits) => {
                spend(limits.len())
                    && Decimal::parse(value).is_some_and(|v| limits.iter().any(|l| order.holds(&v, l)))
            }
            Test::Date(order, limits) => {
                spend(limits.len())
                    && Instant::parse(value).is_some_and(|v| limits.iter().any(|l| order.holds(&v, l)))
            }
            Test::Bytes(wanted) => {
                spend(wanted.len()) && BASE64.decode(value).is_ok_and(|v| wanted.contains(&v))
            }
            Test::Address(networks) => {
                spend(networks.len())
                    && parse_network(value)
                        .is_some_and(|v| networks.iter().any(|network| network.contains(&v)))
            }
            // `Null` asks for presence, never for a value; `holds` has answered it.
            Test::Absent(_) => false,
        }
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

fn each<T>(values: &[String], parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, ValueFault> {
    values
        .iter()
        .map(|value| parse(value).ok_or_else(|| ValueFault::Unreadable(value.clone())))
        .collect()
}
