//! The in-guest agent: one small static binary.

fn main() {}
