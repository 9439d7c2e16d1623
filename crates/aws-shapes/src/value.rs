//! How values of generated shapes meet a wire format, without either knowing the other.
//!
//! A generated struct only says which member is where ([`DynShape`]); everything else is here, once. Writing: a struct
//! hands each member to a [`ShapeSerializer`], with the member's schema as the key; absent members are not handed
//! over, but empty `Vec`s and maps are (the query protocols show empty containers; a serialiser that should not show
//! them looks at the length). Reading: a [`ShapeDeserializer`] is asked for the type that the member wants.
//!
//! All traits work as trait objects: the generated code stays small and there is one copy of each codec.
//! Implementations are in `aws-wire` (protocols) and in `validate`.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;

use bytes::Bytes;
use time::OffsetDateTime;

use crate::schema::{MemberSchema, StructSchema};

/// Why a value could not be read from a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The message is not well formed (`detail` says what, for the log and the client).
    #[error("the request is not well formed: {detail}")]
    Malformed {
        /// What the parser met.
        detail: String,
    },
    /// A parameter that the operation does not have.
    #[error("the parameter {path} is not recognized")]
    UnknownParameter {
        /// Its name as sent.
        path: String,
    },
    /// A value that is not of the member's type.
    #[error("value ({value}) for parameter {path} is invalid: expected {expected}")]
    InvalidValue {
        /// Where it stood, as sent.
        path: String,
        /// The value, cut to a bounded length; empty for sensitive members.
        value: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// One of our bounds on requests.
    #[error("the request exceeds the limit of {limit} {what}")]
    TooLarge {
        /// What there was too much of.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
}

/// Why an answer could not be written: always a mistake of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Text that the format cannot carry (a control character in XML, a line break in a header).
    #[error("member {member} holds text that the wire format cannot carry")]
    Unrepresentable {
        /// The member.
        member: &'static str,
    },
    /// A timestamp outside of the years 1 to 9999.
    #[error("member {member} holds a time that the wire format cannot carry")]
    TimeOutOfRange {
        /// The member.
        member: &'static str,
    },
    /// A member of a kind that its location cannot carry (a structure in a header).
    #[error("member {member} cannot be carried at its location")]
    Misplaced {
        /// The member.
        member: &'static str,
    },
}

/// A generated struct, when its type is not known.
pub trait DynShape: Any + Debug + Send + Sync {
    /// What it looks like.
    fn schema(&self) -> &'static StructSchema;

    /// The member with this index in `schema().members`.
    fn field(&self, index: usize) -> &dyn Value;

    /// As [`DynShape::field`], to be read into.
    fn field_mut(&mut self, index: usize) -> &mut dyn Value;

    /// For downcasts.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;

    /// Hands all present members to `serializer`.
    fn serialize(&self, serializer: &mut dyn ShapeSerializer) -> Result<(), EncodeError> {
        for (index, member) in self.schema().members.iter().enumerate() {
            self.field(index).write(member, serializer)?;
        }
        Ok(())
    }

    /// Reads one member.
    fn deserialize_member(
        &mut self,
        index: usize,
        source: &mut dyn ShapeDeserializer,
    ) -> Result<(), DecodeError> {
        let member = &self.schema().members[index];
        self.field_mut(index).read(member, source)
    }
}

/// A generated struct.
pub trait Shape: DynShape + Clone + Default + PartialEq {
    /// What it looks like.
    const SCHEMA: &'static StructSchema;
}

/// What a wire format (or a checker) does with a value. `member` is the key: it names and describes the value.
pub trait ShapeSerializer {
    /// Writes a boolean.
    fn boolean(&mut self, member: &'static MemberSchema, value: bool) -> Result<(), EncodeError>;
    /// Writes an integer of either width.
    fn integer(&mut self, member: &'static MemberSchema, value: i64) -> Result<(), EncodeError>;
    /// Writes a floating-point number.
    fn double(&mut self, member: &'static MemberSchema, value: f64) -> Result<(), EncodeError>;
    /// Writes text, also of enumerations.
    fn string(&mut self, member: &'static MemberSchema, value: &str) -> Result<(), EncodeError>;
    /// Writes a point in time.
    fn timestamp(&mut self, member: &'static MemberSchema, value: OffsetDateTime) -> Result<(), EncodeError>;
    /// Writes bytes.
    fn blob(&mut self, member: &'static MemberSchema, value: &Bytes) -> Result<(), EncodeError>;
    /// Writes a structure.
    fn structure(&mut self, member: &'static MemberSchema, value: &dyn DynShape) -> Result<(), EncodeError>;
    /// Writes a list, also an empty one.
    fn list(&mut self, member: &'static MemberSchema, items: &dyn Items) -> Result<(), EncodeError>;
    /// Writes a map, also an empty one.
    fn map(&mut self, member: &'static MemberSchema, entries: &dyn Entries) -> Result<(), EncodeError>;
}

/// Takes one item of a list.
pub type EachItem<'a> = &'a mut dyn FnMut(&mut dyn ShapeDeserializer) -> Result<(), DecodeError>;

/// Takes one entry of a map.
pub type EachEntry<'a> = &'a mut dyn FnMut(String, &mut dyn ShapeDeserializer) -> Result<(), DecodeError>;

/// Where a value comes from. The methods are asked only where there is a value.
pub trait ShapeDeserializer {
    /// Reads a boolean.
    fn boolean(&mut self, member: &'static MemberSchema) -> Result<bool, DecodeError>;
    /// Reads an integer of at most this many bits.
    fn integer(&mut self, member: &'static MemberSchema, bits: u32) -> Result<i64, DecodeError>;
    /// Reads a floating-point number.
    fn double(&mut self, member: &'static MemberSchema) -> Result<f64, DecodeError>;
    /// Reads text.
    fn string(&mut self, member: &'static MemberSchema) -> Result<String, DecodeError>;
    /// Reads a point in time.
    fn timestamp(&mut self, member: &'static MemberSchema) -> Result<OffsetDateTime, DecodeError>;
    /// Reads bytes.
    fn blob(&mut self, member: &'static MemberSchema) -> Result<Bytes, DecodeError>;
    /// Reads the members of a structure that are present into `target`.
    fn structure(
        &mut self,
        member: &'static MemberSchema,
        target: &mut dyn DynShape,
    ) -> Result<(), DecodeError>;
    /// Reads a list.
    fn list(&mut self, member: &'static MemberSchema, each: EachItem<'_>) -> Result<(), DecodeError>;
    /// Reads a map.
    fn map(&mut self, member: &'static MemberSchema, each: EachEntry<'_>) -> Result<(), DecodeError>;
}

/// What can be handed to a serialiser.
pub trait Write {
    /// Hands the value over, if there is one.
    fn write(
        &self,
        member: &'static MemberSchema,
        serializer: &mut dyn ShapeSerializer,
    ) -> Result<(), EncodeError>;
}

/// The type of a struct's member.
pub trait Value: Write {
    /// Replaces the value by what `source` holds.
    fn read(
        &mut self,
        member: &'static MemberSchema,
        source: &mut dyn ShapeDeserializer,
    ) -> Result<(), DecodeError>;
}

/// The type of a value that is there: the inside of an `Option`, a list or a map.
pub trait Item: Write + Sized {
    /// Reads one.
    fn read_item(
        member: &'static MemberSchema,
        source: &mut dyn ShapeDeserializer,
    ) -> Result<Self, DecodeError>;
}

/// A list of any type, as a serialiser sees it.
pub trait Items {
    /// How many there are.
    fn count(&self) -> usize;
    /// Calls `each` with every item, in order.
    fn each(&self, each: &mut dyn FnMut(&dyn Write) -> Result<(), EncodeError>) -> Result<(), EncodeError>;
}

/// A map of any type, as a serialiser sees it.
pub trait Entries {
    /// How many there are.
    fn count(&self) -> usize;
    /// Calls `each` with every key and value, in key order.
    fn each(
        &self,
        each: &mut dyn FnMut(&str, &dyn Write) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError>;
}

/// Stands in for the input or output of operations that have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {}

static UNIT: StructSchema = StructSchema {
    name: "Unit",
    members: &[],
    payload: None,
    wire_name: None,
    union: false,
    empty_is_absent: false,
};

impl DynShape for Unit {
    fn schema(&self) -> &'static StructSchema {
        &UNIT
    }
    fn field(&self, index: usize) -> &dyn Value {
        no_such_field("Unit", index)
    }
    fn field_mut(&mut self, index: usize) -> &mut dyn Value {
        no_such_field("Unit", index)
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Shape for Unit {
    const SCHEMA: &'static StructSchema = &UNIT;
}

/// The index of a member comes from its schema, so this is a mistake in the caller.
#[doc(hidden)]
pub fn no_such_field(shape: &str, index: usize) -> ! {
    panic!("{shape} has no member with index {index}")
}

/// Shown in place of a sensitive value that is set.
#[doc(hidden)]
pub struct Redacted;

impl Debug for Redacted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<redacted>")
    }
}

/// Writes a struct's `Debug` with the sensitive members hidden; members that are not set are shown as such.
#[doc(hidden)]
pub fn debug_redacted(
    name: &str,
    fields: &[(&str, Option<&dyn Debug>)],
    f: &mut std::fmt::Formatter<'_>,
) -> std::fmt::Result {
    let mut out = f.debug_struct(name);
    for (field, value) in fields {
        out.field(field, value.unwrap_or(&Redacted));
    }
    out.finish()
}

macro_rules! scalar {
    ($type:ty, |$value:ident, $member:ident, $serializer:ident| $write:expr, |$source:ident| $read:expr) => {
        impl Write for $type {
            fn write(
                &self,
                $member: &'static MemberSchema,
                $serializer: &mut dyn ShapeSerializer,
            ) -> Result<(), EncodeError> {
                let $value = self;
                $write
            }
        }
        impl Item for $type {
            fn read_item(
                $member: &'static MemberSchema,
                $source: &mut dyn ShapeDeserializer,
            ) -> Result<Self, DecodeError> {
                $read
            }
        }
    };
}

scalar!(bool, |value, member, to| to.boolean(member, *value), |from| from
    .boolean(member));
scalar!(i64, |value, member, to| to.integer(member, *value), |from| from
    .integer(member, 64));
scalar!(f64, |value, member, to| to.double(member, *value), |from| from
    .double(member));
scalar!(String, |value, member, to| to.string(member, value), |from| from
    .string(member));
scalar!(
    OffsetDateTime,
    |value, member, to| to.timestamp(member, *value),
    |from| from.timestamp(member)
);
scalar!(Bytes, |value, member, to| to.blob(member, value), |from| from
    .blob(member));
scalar!(
    i32,
    |value, member, to| to.integer(member, i64::from(*value)),
    |from| {
        let wide = from.integer(member, 32)?;
        i32::try_from(wide).map_err(|_| DecodeError::InvalidValue {
            path: member.name.into(),
            value: wide.to_string(),
            expected: "an integer of 32 bits",
        })
    }
);

impl<T: Item> Write for Box<T> {
    fn write(&self, member: &'static MemberSchema, to: &mut dyn ShapeSerializer) -> Result<(), EncodeError> {
        (**self).write(member, to)
    }
}

impl<T: Item> Item for Box<T> {
    fn read_item(
        member: &'static MemberSchema,
        from: &mut dyn ShapeDeserializer,
    ) -> Result<Self, DecodeError> {
        T::read_item(member, from).map(Box::new)
    }
}

impl<T: Item> Write for Option<T> {
    fn write(&self, member: &'static MemberSchema, to: &mut dyn ShapeSerializer) -> Result<(), EncodeError> {
        self.as_ref().map_or(Ok(()), |value| value.write(member, to))
    }
}

impl<T: Item> Value for Option<T> {
    fn read(
        &mut self,
        member: &'static MemberSchema,
        from: &mut dyn ShapeDeserializer,
    ) -> Result<(), DecodeError> {
        *self = Some(T::read_item(member, from)?);
        Ok(())
    }
}

impl<T: Item> Items for Vec<T> {
    fn count(&self) -> usize {
        self.len()
    }
    fn each(&self, each: &mut dyn FnMut(&dyn Write) -> Result<(), EncodeError>) -> Result<(), EncodeError> {
        self.iter().try_for_each(|item| each(item))
    }
}

impl<T: Item> Write for Vec<T> {
    fn write(&self, member: &'static MemberSchema, to: &mut dyn ShapeSerializer) -> Result<(), EncodeError> {
        to.list(member, self)
    }
}

impl<T: Item> Item for Vec<T> {
    fn read_item(
        member: &'static MemberSchema,
        from: &mut dyn ShapeDeserializer,
    ) -> Result<Self, DecodeError> {
        let mut items = Vec::new();
        let crate::schema::ShapeKind::List(element) = &member.shape.kind else {
            unreachable!("the generator gives Vec only to lists")
        };
        from.list(member, &mut |from| {
            items.push(T::read_item(element, from)?);
            Ok(())
        })?;
        Ok(items)
    }
}

impl<T: Item> Value for Vec<T> {
    fn read(
        &mut self,
        member: &'static MemberSchema,
        from: &mut dyn ShapeDeserializer,
    ) -> Result<(), DecodeError> {
        *self = Self::read_item(member, from)?;
        Ok(())
    }
}

impl<T: Item> Entries for BTreeMap<String, T> {
    fn count(&self) -> usize {
        self.len()
    }
    fn each(
        &self,
        each: &mut dyn FnMut(&str, &dyn Write) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.iter().try_for_each(|(key, value)| each(key, value))
    }
}

impl<T: Item> Write for BTreeMap<String, T> {
    fn write(&self, member: &'static MemberSchema, to: &mut dyn ShapeSerializer) -> Result<(), EncodeError> {
        to.map(member, self)
    }
}

impl<T: Item> Item for BTreeMap<String, T> {
    fn read_item(
        member: &'static MemberSchema,
        from: &mut dyn ShapeDeserializer,
    ) -> Result<Self, DecodeError> {
        let mut entries = BTreeMap::new();
        let crate::schema::ShapeKind::Map(_, element) = &member.shape.kind else {
            unreachable!("the generator gives BTreeMap only to maps")
        };
        from.map(member, &mut |key, from| {
            entries.insert(key, T::read_item(element, from)?);
            Ok(())
        })?;
        Ok(entries)
    }
}

impl<T: Item> Value for BTreeMap<String, T> {
    fn read(
        &mut self,
        member: &'static MemberSchema,
        from: &mut dyn ShapeDeserializer,
    ) -> Result<(), DecodeError> {
        *self = Self::read_item(member, from)?;
        Ok(())
    }
}

/// Makes a generated struct usable inside options, lists and maps.
macro_rules! structure_item {
    ($($type:ident)*) => {$(
        impl crate::value::Write for $type {
            fn write(
                &self,
                member: &'static crate::schema::MemberSchema,
                to: &mut dyn crate::value::ShapeSerializer,
            ) -> Result<(), crate::value::EncodeError> {
                to.structure(member, self)
            }
        }
        impl crate::value::Item for $type {
            fn read_item(
                member: &'static crate::schema::MemberSchema,
                from: &mut dyn crate::value::ShapeDeserializer,
            ) -> Result<Self, crate::value::DecodeError> {
                let mut value = Self::default();
                from.structure(member, &mut value)?;
                Ok(value)
            }
        }
    )*};
}
pub(crate) use structure_item;
