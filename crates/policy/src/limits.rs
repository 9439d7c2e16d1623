//! The bounds of the policy language: how deep and how large a document may be, and how long an evaluation.
//!
//! Size limits that depend on what a policy is attached to (inline, managed, trust) belong to `iam`.

/// Deepest nesting of a policy document (identity.md R39).
pub const DEPTH_MAX: usize = 16;

/// Longest document in bytes that the parser looks at, white space included. AWS's own request limit.
pub const DOCUMENT_BYTES_MAX: usize = 131_072;

/// Work allowed for one decision, in character comparisons. A decision that would need more is a deny.
pub const STEPS_MAX: u64 = 20_000_000;
