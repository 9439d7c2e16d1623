//! From text to a compiled policy: the grammar and every refusal of identity.md R38–R40 and R44.
//!
//! The reader walks the JSON once, element by element, and stops at the first fault; the fault's text names the
//! element, because it reaches the author as `MalformedPolicyDocument`.

use aws_types::AccountId;

use crate::condition::{Condition, Operator, ValueFault};
use crate::document::{Effect, PatternClause, Policy, PolicyKind, PrincipalClause, Statement};
use crate::json::{Json, read};
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::pattern::{Flavor, Pattern, PatternFault};
use crate::principal::PrincipalName;

/// Why a document is refused.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFault {
    /// Longer than any policy may be.
    #[error("the document is longer than {DOCUMENT_BYTES_MAX} bytes")]
    TooLong,
    /// A character outside tab, LF, CR and U+0020–U+00FF.
    #[error("the document has the character U+{:04X}, which policies cannot have", u32::from(*.0))]
    Character(char),
    /// Not JSON, or JSON with a duplicate key or too deep.
    #[error("the document is not valid JSON for a policy")]
    Json(#[source] serde_json::Error),
    /// An element has the wrong JSON type.
    #[error("{element} must be {wanted}")]
    Shape {
        /// The element.
        element: String,
        /// What it must be.
        wanted: &'static str,
    },
    /// An element that the language, or this kind of policy, does not have.
    #[error("{0} is not an element that this policy can have")]
    Unknown(String),
    /// A required element is missing.
    #[error("a required element is missing: {0}")]
    Missing(&'static str),
    /// Both forms of an element that excludes its negation.
    #[error("a statement has both {0} and Not{0}")]
    Both(&'static str),
    /// An empty list.
    #[error("{0} is empty")]
    Empty(String),
    /// `Version` is neither of the two.
    #[error("the policy language has no version \"{0}\"")]
    Version(String),
    /// `Effect` is neither `Allow` nor `Deny`.
    #[error("the effect \"{0}\" is neither Allow nor Deny")]
    Effect(String),
    /// A statement id that is not letters and digits, or used twice.
    #[error("the statement id \"{0}\" is repeated or has characters other than letters and digits")]
    Sid(String),
    /// An action that is not `service:name` or `*`, or not allowed in this kind of policy.
    #[error("\"{0}\" is not an action that this policy can name")]
    Action(String),
    /// A resource that is neither `*` nor an ARN, or has a wildcard in the service field.
    #[error("\"{0}\" is neither * nor an ARN with a service")]
    Resource(String),
    /// A principal that is none.
    #[error("\"{0}\" is not a principal")]
    Principal(String),
    /// `NotPrincipal` with `Allow`.
    #[error("NotPrincipal can only be used with the effect Deny")]
    NotPrincipalAllows,
    /// A condition operator that does not exist.
    #[error("there is no condition operator \"{0}\"")]
    Operator(String),
    /// A condition value that its operator cannot compare, or a malformed variable.
    #[error("the condition on \"{key}\" cannot be used: {fault}")]
    ConditionValue {
        /// The condition key.
        key: String,
        /// What is wrong with the value.
        fault: String,
    },
    /// A variable that is malformed or in a place where none may be.
    #[error("{0}")]
    Variable(String),
}

impl From<PatternFault> for PolicyFault {
    fn from(fault: PatternFault) -> Self {
        PolicyFault::Variable(fault.to_string())
    }
}

type Members = Vec<(String, Json)>;

pub(crate) fn parse_policy(text: &str, kind: PolicyKind) -> Result<Policy, PolicyFault> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(PolicyFault::TooLong);
    }
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{ff}');
    if let Some(c) = text.chars().find(|c| !allowed(*c)) {
        return Err(PolicyFault::Character(c));
    }
    let document = object(read(text).map_err(PolicyFault::Json)?, "the policy")?;
    let mut variables = false;
    let mut statements = None;
    for (name, value) in document {
        match name.as_str() {
            "Version" => {
                variables = match string(value, "Version")?.as_str() {
                    "2012-10-17" => true,
                    "2008-10-17" => false,
                    other => return Err(PolicyFault::Version(other.to_owned())),
                }
            }
            "Id" if kind != PolicyKind::Identity => {
                string(value, "Id")?;
            }
            "Statement" => statements = Some(value),
            _ => return Err(PolicyFault::Unknown(name)),
        }
    }
    let statements = match statements.ok_or(PolicyFault::Missing("Statement"))? {
        Json::List(items) if items.is_empty() => return Err(PolicyFault::Empty("Statement".to_owned())),
        Json::List(items) => items,
        single => vec![single],
    };
    let reader = Reader { kind, variables };
    let statements = statements
        .into_iter()
        .map(|statement| reader.statement(object(statement, "a statement")?))
        .collect::<Result<Vec<_>, _>>()?;
    for (at, statement) in statements.iter().enumerate() {
        if let Some(sid) = statement.sid.as_ref().filter(|sid| !sid.is_empty())
            && statements[..at]
                .iter()
                .any(|earlier| earlier.sid.as_ref() == Some(sid))
        {
            return Err(PolicyFault::Sid(sid.clone()));
        }
    }
    Ok(Policy { statements })
}

struct Reader {
    kind: PolicyKind,
    /// False for documents of version 2008-10-17.
    variables: bool,
}

impl Reader {
    fn statement(&self, members: Members) -> Result<Statement, PolicyFault> {
        let (mut sid, mut effect, mut principal, mut action, mut resource) = (None, None, None, None, None);
        let mut conditions = Vec::new();
        for (name, value) in members {
            match name.as_str() {
                "Sid" => sid = Some(read_sid(string(value, "Sid")?)?),
                "Effect" => {
                    effect = Some(match string(value, "Effect")?.as_str() {
                        "Allow" => Effect::Allow,
                        "Deny" => Effect::Deny,
                        other => return Err(PolicyFault::Effect(other.to_owned())),
                    })
                }
                "Principal" if self.kind != PolicyKind::Identity => once(
                    &mut principal,
                    "Principal",
                    PrincipalClause {
                        negated: false,
                        names: principals(value)?,
                    },
                )?,
                "NotPrincipal" if self.kind == PolicyKind::Resource => once(
                    &mut principal,
                    "Principal",
                    PrincipalClause {
                        negated: true,
                        names: principals(value)?,
                    },
                )?,
                "Action" | "NotAction" => {
                    let patterns = each(value, &name, |text| self.action(text))?;
                    once(
                        &mut action,
                        "Action",
                        PatternClause {
                            negated: name == "NotAction",
                            patterns,
                        },
                    )?
                }
                "Resource" | "NotResource" if self.kind != PolicyKind::Trust => {
                    let patterns = each(value, &name, |text| self.resource(text))?;
                    once(
                        &mut resource,
                        "Resource",
                        PatternClause {
                            negated: name == "NotResource",
                            patterns,
                        },
                    )?
                }
                "Condition" => conditions = self.conditions(value)?,
                _ => return Err(PolicyFault::Unknown(name)),
            }
        }
        let effect = effect.ok_or(PolicyFault::Missing("Effect"))?;
        let action = action.ok_or(PolicyFault::Missing("Action"))?;
        if self.kind != PolicyKind::Trust && resource.is_none() {
            return Err(PolicyFault::Missing("Resource"));
        }
        if self.kind != PolicyKind::Identity && principal.is_none() {
            return Err(PolicyFault::Missing("Principal"));
        }
        if effect == Effect::Allow && principal.as_ref().is_some_and(|clause| clause.negated) {
            return Err(PolicyFault::NotPrincipalAllows);
        }
        Ok(Statement {
            sid,
            effect,
            principal,
            action,
            resource,
            conditions,
        })
    }

    fn action(&self, text: &str) -> Result<Pattern, PolicyFault> {
        let fault = || PolicyFault::Action(text.to_owned());
        if text != "*" {
            let (service, name) = text.split_once(':').ok_or_else(fault)?;
            let service_ok =
                !service.is_empty() && service.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            let name_ok = !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'*' | b'?' | b'-' | b'_'));
            if !service_ok || !name_ok {
                return Err(fault());
            }
        }
        let own = text
            .get(..4)
            .is_some_and(|prefix| prefix.eq_ignore_ascii_case("sts:"));
        if self.kind == PolicyKind::Trust && !own {
            return Err(fault());
        }
        Ok(Pattern::compile(text, Flavor::Action, false)?)
    }

    fn resource(&self, text: &str) -> Result<Pattern, PolicyFault> {
        let shaped = text.trim_matches('*').is_empty() && !text.is_empty()
            || text.strip_prefix("arn:").is_some_and(|rest| {
                // `arn:*` and `arn:aws:*` reach everything and name no service; a service in part does not exist.
                let service = rest.split(':').nth(1).unwrap_or("*");
                service == "*" || !service.contains(['*', '?'])
            });
        if !shaped {
            return Err(PolicyFault::Resource(text.to_owned()));
        }
        Ok(Pattern::compile_resource(text, self.variables)?)
    }

    fn conditions(&self, value: Json) -> Result<Vec<Condition>, PolicyFault> {
        let mut conditions = Vec::new();
        for (name, entries) in object(value, "Condition")? {
            let operator = Operator::parse(&name).ok_or_else(|| PolicyFault::Operator(name.clone()))?;
            for (key, values) in object(entries, &name)? {
                if key.is_empty() {
                    return Err(PolicyFault::Empty(format!("a key of {name}")));
                }
                let values = scalars(values, &key)?;
                let compiled = Condition::compile(operator, &key, &values, self.variables);
                conditions.push(compiled.map_err(|fault: ValueFault| PolicyFault::ConditionValue {
                    key,
                    fault: fault.to_string(),
                })?);
            }
        }
        Ok(conditions)
    }
}

fn once<T>(slot: &mut Option<T>, element: &'static str, value: T) -> Result<(), PolicyFault> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(PolicyFault::Both(element)),
    }
}

fn read_sid(sid: String) -> Result<String, PolicyFault> {
    if sid.bytes().all(|b| b.is_ascii_alphanumeric()) {
        Ok(sid)
    } else {
        Err(PolicyFault::Sid(sid))
    }
}

fn object(value: Json, element: &str) -> Result<Members, PolicyFault> {
    match value {
        Json::Object(members) => Ok(members),
        _ => Err(PolicyFault::Shape {
            element: element.to_owned(),
            wanted: "an object",
        }),
    }
}

fn string(value: Json, element: &str) -> Result<String, PolicyFault> {
    match value {
        Json::Text(text) => Ok(text),
        _ => Err(PolicyFault::Shape {
            element: element.to_owned(),
            wanted: "a string",
        }),
    }
}

/// A string or a non-empty list of strings, each through `read`.
fn each<T>(
    value: Json,
    element: &str,
    read: impl Fn(&str) -> Result<T, PolicyFault>,
) -> Result<Vec<T>, PolicyFault> {
    let items = match value {
        Json::List(items) if items.is_empty() => return Err(PolicyFault::Empty(element.to_owned())),
        Json::List(items) => items,
        single => vec![single],
    };
    items
        .into_iter()
        .map(|item| read(&string(item, element)?))
        .collect()
}

/// As [`each`], but numbers and Booleans are strings too.
fn scalars(value: Json, element: &str) -> Result<Vec<String>, PolicyFault> {
    let items = match value {
        Json::List(items) if items.is_empty() => return Err(PolicyFault::Empty(element.to_owned())),
        Json::List(items) => items,
        single => vec![single],
    };
    items
        .into_iter()
        .map(|item| match item {
            Json::Text(text) | Json::Bare(text) => Ok(text),
            _ => Err(PolicyFault::Shape {
                element: element.to_owned(),
                wanted: "strings",
            }),
        })
        .collect()
}

fn principals(value: Json) -> Result<Vec<PrincipalName>, PolicyFault> {
    let members = match value {
        Json::Text(text) if text == "*" => return Ok(vec![PrincipalName::Everyone]),
        Json::Text(text) => return Err(PolicyFault::Principal(text)),
        other => object(other, "Principal")?,
    };
    if members.is_empty() {
        return Err(PolicyFault::Empty("Principal".to_owned()));
    }
    let mut names = Vec::new();
    for (kind, value) in members {
        let read = |text: &str| match kind.as_str() {
            "AWS" => read_aws_principal(text),
            "Service" if text.contains('.') => Some(PrincipalName::Service(text.to_owned())),
            "Federated" if !text.is_empty() && text != "*" => Some(PrincipalName::Federated(text.to_owned())),
            "CanonicalUser" => Some(PrincipalName::CanonicalUser(text.to_owned())),
            _ => None,
        };
        names.extend(each(value, "Principal", |text| {
            read(text).ok_or_else(|| PolicyFault::Principal(text.to_owned()))
        })?);
    }
    Ok(names)
}

fn read_aws_principal(text: &str) -> Option<PrincipalName> {
    if text == "*" {
        return Some(PrincipalName::Everyone);
    }
    if let Ok(account) = AccountId::parse(text) {
        return Some(PrincipalName::Account(account));
    }
    let arn = aws_types::Arn::parse(text);
    let Some(arn) = arn else {
        // A unique id, which a name becomes when its entity is bound or gone (R46).
        let unique = text.len() == 21
            && ["AIDA", "AROA"].iter().any(|prefix| text.starts_with(prefix))
            && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        return unique.then(|| PrincipalName::Entity(text.to_owned()));
    };
    let account = arn.account()?;
    let kind = arn.resource().split('/').next().unwrap_or_default();
    match (text.split(':').nth(2)?, kind) {
        ("iam", "root") => Some(PrincipalName::Account(account)),
        ("iam", "user" | "role") | ("sts", "assumed-role" | "federated-user")
            if !text.contains(['*', '?']) =>
        {
            Some(PrincipalName::Entity(text.to_owned()))
        }
        _ => None,
    }
}
