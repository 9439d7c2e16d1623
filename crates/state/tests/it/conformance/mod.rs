//! The contract of the store, as cases that every engine passes.

pub(crate) mod bytes;
pub(crate) mod linearizable;
pub(crate) mod records;
pub(crate) mod watches;
