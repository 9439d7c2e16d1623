//! Checks a value against the constraints of its model: required members, bounds, patterns, unions, known enum values.
//!
//! [`validate`] walks a value as if to serialise it and notes what is wrong, in the model's order. It decides nothing:
//! services turn violations into their own errors, and may be more lenient than the model (AWS itself accepts enum
//! values that its models do not list, so [`Constraint::Enum`] is often ignored). Patterns with look-around, which the
//! `regex` crate lacks on purpose, are not checked here; the tests list them.

use std::collections::HashMap;
use std::sync::{LazyLock, RwLock};

use bytes::Bytes;
use regex::Regex;
use time::OffsetDateTime;

use crate::schema::{MemberSchema, ShapeKind};
use crate::value::{DynShape, EncodeError, Entries, Items, ShapeSerializer, Write};

/// One constraint that a value breaks.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Where: member names joined by dots, list positions (from 1) and map keys among them.
    pub path: String,
    /// What is wrong there.
    pub constraint: Constraint,
}

/// The kinds of constraints, with what the model asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Constraint {
    /// The member must be there.
    Required,
    /// The length or number is below this.
    Min(f64),
    /// The length or number is above this.
    Max(f64),
    /// The text does not match this regular expression.
    Pattern(&'static str),
    /// The text is none of these.
    Enum(&'static [&'static str]),
    /// Not exactly one member of the union is set.
    Union,
}

/// All constraints that `value` breaks.
pub fn validate(value: &dyn DynShape) -> Vec<Violation> {
    let mut checker = Checker::default();
    checker.members(value);
    checker.violations
}

#[derive(Default)]
struct Checker {
    path: Vec<String>,
    /// The step of the path that an item of a list or map takes instead of its member's name.
    step: Option<String>,
    /// The members of the structure being walked that are there.
    present: Vec<&'static str>,
    /// The structure being walked cannot tell an empty list from an absent one.
    empty_is_absent: bool,
    violations: Vec<Violation>,
}

impl Checker {
    fn report(&mut self, constraint: Constraint) {
        self.violations.push(Violation {
            path: self.path.join("."),
            constraint,
        });
    }

    fn members(&mut self, value: &dyn DynShape) {
        let schema = value.schema();
        let outer = std::mem::take(&mut self.present);
        let outer_mode = std::mem::replace(&mut self.empty_is_absent, schema.empty_is_absent);
        let walked = value.serialize(self);
        debug_assert_eq!(walked, Ok(()), "this serialiser never fails");
        let present = std::mem::replace(&mut self.present, outer);
        self.empty_is_absent = outer_mode;
        for member in schema
            .members
            .iter()
            .filter(|m| m.required && !present.contains(&m.name))
        {
            self.path.push(member.name.into());
            self.report(Constraint::Required);
            self.path.pop();
        }
        if schema.union && present.len() != 1 {
            self.report(Constraint::Union);
        }
    }

    /// Enters a member, an item or a map value.
    fn enter(&mut self, member: &'static MemberSchema) {
        self.present.push(member.name);
        let step = self.step.take().unwrap_or_else(|| member.name.into());
        self.path.push(step);
    }

    /// Checks an item of a list, or a key or value of a map, which are no members of the structure being walked.
    fn inside(
        &mut self,
        step: String,
        element: &'static MemberSchema,
        item: &dyn Write,
    ) -> Result<(), EncodeError> {
        let outer = std::mem::take(&mut self.present);
        self.step = Some(step);
        let walked = item.write(element, self);
        self.step = None;
        self.present = outer;
        walked
    }

    fn bounds(&mut self, member: &'static MemberSchema, measure: f64) {
        match (member.shape.min, member.shape.max) {
            (Some(min), _) if measure < min => self.report(Constraint::Min(min)),
            (_, Some(max)) if measure > max => self.report(Constraint::Max(max)),
            _ => {}
        }
    }
}

impl ShapeSerializer for Checker {
    fn boolean(&mut self, member: &'static MemberSchema, _: bool) -> Result<(), EncodeError> {
        self.enter(member);
        self.path.pop();
        Ok(())
    }

    fn integer(&mut self, member: &'static MemberSchema, value: i64) -> Result<(), EncodeError> {
        self.double(member, value as f64)
    }

    fn double(&mut self, member: &'static MemberSchema, value: f64) -> Result<(), EncodeError> {
        self.enter(member);
        self.bounds(member, value);
        self.path.pop();
        Ok(())
    }

    fn string(&mut self, member: &'static MemberSchema, value: &str) -> Result<(), EncodeError> {
        self.enter(member);
        self.bounds(member, value.chars().count() as f64);
        if let Some(pattern) = member.shape.pattern
            && !matches_whole(pattern, value)
        {
            self.report(Constraint::Pattern(pattern));
        }
        if let ShapeKind::Enum(values) = member.shape.kind
            && !values.contains(&value)
        {
            self.report(Constraint::Enum(values));
        }
        self.path.pop();
        Ok(())
    }

    fn timestamp(&mut self, member: &'static MemberSchema, _: OffsetDateTime) -> Result<(), EncodeError> {
        self.enter(member);
        self.path.pop();
        Ok(())
    }

    fn blob(&mut self, member: &'static MemberSchema, value: &Bytes) -> Result<(), EncodeError> {
        self.enter(member);
        self.bounds(member, value.len() as f64);
        self.path.pop();
        Ok(())
    }

    fn structure(&mut self, member: &'static MemberSchema, value: &dyn DynShape) -> Result<(), EncodeError> {
        self.enter(member);
        self.members(value);
        self.path.pop();
        Ok(())
    }

    fn list(&mut self, member: &'static MemberSchema, items: &dyn Items) -> Result<(), EncodeError> {
        let ShapeKind::List(element) = &member.shape.kind else {
            return Ok(());
        };
        if items.count() == 0 && self.empty_is_absent {
            return Ok(());
        }
        self.enter(member);
        self.bounds(member, items.count() as f64);
        let mut position = 0;
        items.each(&mut |item| {
            position += 1;
            self.inside(position.to_string(), element, item)
        })?;
        self.path.pop();
        Ok(())
    }

    fn map(&mut self, member: &'static MemberSchema, entries: &dyn Entries) -> Result<(), EncodeError> {
        let ShapeKind::Map(key_member, element) = &member.shape.kind else {
            return Ok(());
        };
        if entries.count() == 0 && self.empty_is_absent {
            return Ok(());
        }
        self.enter(member);
        self.bounds(member, entries.count() as f64);
        entries.each(&mut |key, value| {
            self.inside(key.into(), key_member, &KeyText(key))?;
            self.inside(key.into(), element, value)
        })?;
        self.path.pop();
        Ok(())
    }
}

/// The key of a map entry, which the map does not hold as a value.
struct KeyText<'a>(&'a str);

impl Write for KeyText<'_> {
    fn write(&self, member: &'static MemberSchema, to: &mut dyn ShapeSerializer) -> Result<(), EncodeError> {
        to.string(member, self.0)
    }
}

/// True if the whole text matches, or if the pattern is one that we cannot compile.
fn matches_whole(pattern: &'static str, text: &str) -> bool {
    compiled(pattern).is_none_or(|regex| regex.is_match(text))
}

/// Each pattern is compiled once; there are as many as the models have.
fn compiled(pattern: &'static str) -> Option<Regex> {
    static COMPILED: LazyLock<RwLock<HashMap<&'static str, Option<Regex>>>> = LazyLock::new(RwLock::default);
    let read = COMPILED.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = read.get(pattern) {
        return known.clone();
    }
    drop(read);
    let regex = Regex::new(&format!("^(?:{pattern})$")).ok();
    let mut write = COMPILED
        .write()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    write.entry(pattern).or_insert(regex).clone()
}
