//! The operations of this room, one AWS action a file.

pub mod get_caller_identity;
