//! Every bound of this crate, by name. Numbers that the requirements fix (requirements/ebs.md §2.5) say so.

/// Longest id of the contract, in characters (§3.5).
pub const ID_LEN_MAX: usize = 64;
/// Block size: capacities are multiples of it and writes of an aligned block are old or new (§2.5).
pub const BLOCK_BYTES: u64 = 4096;
/// Largest volume: 64 TiB, the largest of the volume types (§2.4).
pub const VOLUME_BYTES_MAX: u64 = 64 << 40;
/// Most bytes that CreateVolume may carry as the volume's first content (§2.5).
pub const SEED_BYTES_MAX: u64 = 655_360;
/// Objects in one page of a list (§2.5).
pub const LIST_PAGE_MAX: usize = 1000;
/// Longest list token, in characters.
pub const LIST_TOKEN_LEN_MAX: usize = 256;
/// Entries in the parameter map of CreateVolume.
pub const VOLUME_PARAMETERS_MAX: usize = 32;
/// Longest key or value of a volume parameter, in bytes.
pub const VOLUME_PARAMETER_LEN_MAX: usize = 1024;
