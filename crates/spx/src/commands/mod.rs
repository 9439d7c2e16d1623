//! What each command does; `up` has a folder of its own.

pub mod down;
pub mod get;
pub mod image;
