//! AWS protocols, SigV4, the `Operation` trait and the registry of operations.
