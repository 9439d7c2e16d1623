//! Developer commands: models, checks.

fn main() {}
