//! Request and response structs of every operation we implement, generated from `models/*.json` by `build.rs`.
