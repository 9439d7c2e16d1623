//! The evaluator against a slow and obvious one, and texts that nobody wrote on purpose.

use crate::context::Context;
use crate::decide::Layers;
use crate::decide::NamedPolicy;
use crate::document::Policy;
use crate::document::PolicyKind;
use crate::pattern::Budget;
use crate::pattern::Flavor;
use crate::pattern::Match;
use crate::pattern::Pattern;
use proptest::prelude::Just;
use proptest::prelude::Strategy;
use proptest::prelude::any;
use proptest::prelude::prop;
use proptest::prelude::prop_oneof;
use proptest::prelude::proptest;
use proptest::prop_assert;
use proptest::prop_assert_eq;

use super::{ask, named, statement, user};

/// Matching by trying everything. `crosses` says for each pattern position whether a wildcard there may take a colon.
fn slow_match(pattern: &[char], crosses: &[bool], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|taken| {
            (crosses[0] || !text[..taken].contains(&':')) && slow_match(rest, &crosses[1..], &text[taken..])
        }),
        Some((expected, rest)) => text.split_first().is_some_and(|(c, after)| {
            let one = *expected == '?' && (crosses[0] || *c != ':');
            (one || expected == c && *expected != '?') && slow_match(rest, &crosses[1..], after)
        }),
    }
}

fn slow_crossings(pattern: &[char]) -> Vec<bool> {
    (0..pattern.len())
        .map(|at| {
            let colons = pattern[..at].iter().filter(|c| **c == ':').count();
            let ends_field = pattern.get(at + 1).is_none_or(|next| *next == ':');
            colons >= 5 || pattern[at] == '*' && ends_field
        })
        .collect()
}

fn matches(pattern: &str, flavor: Flavor, text: &str) -> bool {
    let pattern = Pattern::compile(pattern, flavor, true).expect("compiles");
    pattern.matches(text, &Context::new(), &Budget::new()) == Match::Yes
}

#[derive(Debug, Clone)]
struct SimpleStatement {
    deny: bool,
    not_action: bool,
    actions: Vec<&'static str>,
    not_resource: bool,
    resources: Vec<&'static str>,
    condition: Option<(bool, &'static str)>,
}

fn simple_statement() -> impl Strategy<Value = SimpleStatement> {
    let action = prop_oneof![
        Just("s:a"),
        Just("s:b"),
        Just("s:*"),
        Just("*"),
        Just("t:a"),
        Just("S:?")
    ];
    let resource = prop_oneof![
        Just("*"),
        Just("arn:aws:s:::x"),
        Just("arn:aws:s:::y"),
        Just("arn:aws:s:::?"),
        Just("arn:aws:t:::*")
    ];
    (
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::collection::vec(action, 1..3),
        prop::bool::weighted(0.2),
        prop::collection::vec(resource, 1..3),
        prop::option::weighted(0.4, (any::<bool>(), prop_oneof![Just("1"), Just("2")])),
    )
        .prop_map(
            |(deny, not_action, actions, not_resource, resources, condition)| SimpleStatement {
                deny,
                not_action,
                actions,
                not_resource,
                resources,
                condition,
            },
        )
}

impl SimpleStatement {
    fn json(&self) -> String {
        let list = |items: &[&str]| {
            format!(
                "[{}]",
                items
                    .iter()
                    .map(|i| format!("{i:?}"))
                    .collect::<Vec<_>>()
                    .join(",")
            )
        };
        let condition = self.condition.map_or(String::new(), |(negated, value)| {
            let operator = if negated {
                "StringNotEquals"
            } else {
                "StringEquals"
            };
            format!(r#","Condition":{{"{operator}":{{"a:k":"{value}"}}}}"#)
        });
        format!(
            r#"{{"Effect":"{}","{}":{},"{}":{}{condition}}}"#,
            if self.deny { "Deny" } else { "Allow" },
            if self.not_action { "NotAction" } else { "Action" },
            list(&self.actions),
            if self.not_resource {
                "NotResource"
            } else {
                "Resource"
            },
            list(&self.resources),
        )
    }

    fn applies(&self, action: &str, resource: &str, value: Option<&str>) -> bool {
        let glob = |pattern: &str, text: &str| {
            let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
            slow_match(
                &pattern,
                &vec![true; pattern.len()],
                &text.to_lowercase().chars().collect::<Vec<_>>(),
            )
        };
        let action = self.actions.iter().any(|pattern| glob(pattern, action)) != self.not_action;
        let resource = self.resources.iter().any(|pattern| glob(pattern, resource)) != self.not_resource;
        let condition = self
            .condition
            .is_none_or(|(negated, wanted)| (value == Some(wanted)) != negated);
        action && resource && condition
    }
}

fn document(statements: &[SimpleStatement]) -> Vec<NamedPolicy> {
    if statements.is_empty() {
        return Vec::new();
    }
    let list: Vec<String> = statements.iter().map(SimpleStatement::json).collect();
    vec![named(
        &format!(r#"{{"Version":"2012-10-17","Statement":[{}]}}"#, list.join(",")),
        PolicyKind::Identity,
    )]
}

proptest! {
    #[test]
    fn arn_patterns_match_as_the_slow_matcher_does(pattern in "[ab:*?]{0,9}", text in "[ab:]{0,9}") {
        // Both sides get six fields, so that completion does not come into it.
        let pattern = format!("{pattern}:a:a:a:a:a");
        let text = format!("{text}:a:a:a:a:a");
        let chars: Vec<char> = pattern.chars().collect();
        let slow = slow_match(&chars, &slow_crossings(&chars), &text.chars().collect::<Vec<_>>());
        prop_assert_eq!(matches(&pattern, Flavor::Arn, &text), slow);
    }

    #[test]
    fn globs_match_as_the_slow_matcher_does(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
        let chars: Vec<char> = pattern.chars().collect();
        let slow = slow_match(&chars, &vec![true; chars.len()], &text.chars().collect::<Vec<_>>());
        prop_assert_eq!(matches(&pattern, Flavor::Glob, &text), slow);
    }

    #[test]
    fn decisions_are_those_of_the_slow_evaluator(
        statements in prop::collection::vec(simple_statement(), 0..6),
        boundary in prop::option::of(prop::collection::vec(simple_statement(), 0..4)),
        action in prop_oneof![Just("s:a"), Just("s:b"), Just("t:a"), Just("u:x")],
        resource in prop_oneof![Just("arn:aws:s:::x"), Just("arn:aws:s:::y"), Just("arn:aws:t:::z"), Just("*")],
        value in prop::option::of(prop_oneof![Just("1"), Just("2"), Just("3")]),
        order in any::<prop::sample::Index>(),
    ) {
        let context = value.map_or_else(Context::new, |value| Context::new().with("a:k", value));
        let verdict = |statements: &[SimpleStatement], boundary: Option<&[SimpleStatement]>| {
            let (identity, boundary) = (document(statements), boundary.map(document));
            let layers = Layers { identity: &identity, boundary: boundary.as_deref(), ..Layers::default() };
            ask(&layers, &user(), action, resource, &context).is_allowed()
        };
        let slow = |statements: &[SimpleStatement]| {
            let hit = |deny: bool| statements.iter().any(|s| s.deny == deny && s.applies(action, resource, value));
            (hit(false), hit(true))
        };
        let (allowed, denied) = slow(&statements);
        let (boundary_allowed, boundary_denied) = boundary.as_deref().map_or((true, false), slow);
        let expected = allowed && boundary_allowed && !denied && !boundary_denied;
        let given = verdict(&statements, boundary.as_deref());
        prop_assert_eq!(given, expected);

        // Order never matters; a further Deny never allows; an Allow less never allows.
        let mut turned = statements.clone();
        if !turned.is_empty() {
            let by = order.index(turned.len());
            turned.rotate_left(by);
            prop_assert_eq!(verdict(&turned, boundary.as_deref()), expected);
            let mut fewer = statements.clone();
            let removed = fewer.remove(by);
            if !removed.deny {
                prop_assert!(given || !verdict(&fewer, boundary.as_deref()));
            }
            let mut more = statements.clone();
            more.push(SimpleStatement { deny: true, ..removed });
            prop_assert!(given || !verdict(&more, boundary.as_deref()));
        }
    }

    /// No text makes the parser panic, and what it accepts can be evaluated.
    #[test]
    fn any_text_is_parsed_or_refused(
        text in r#"(\{|\}|\[|\]|"|:|,|Statement|Effect|Allow|Action|Resource|Condition|\*|\$\{|'|arn:aws:s3:::|[a-z ]){0,40}"#,
        body in r#"[a-z\$\{\}',:*?]{0,20}"#,
    ) {
        let _ = Policy::parse(&text, PolicyKind::Identity);
        let text = statement(&format!(r#""Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::{body}""#));
        if let Ok(policy) = Policy::parse(&text, PolicyKind::Identity) {
            let identity = vec![NamedPolicy { id: "p".into(), policy: policy.into() }];
            let layers = Layers { identity: &identity, ..Layers::default() };
            let _ = ask(&layers, &user(), "s3:Get", "arn:aws:s3:::x", &Context::new());
        }
    }
}
