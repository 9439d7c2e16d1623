//! The binary: CLI, roles, wiring. No logic.

fn main() {}
