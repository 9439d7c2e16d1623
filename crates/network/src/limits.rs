//! Named bounds of the VPC half of EC2. Numbers are AWS's default quotas unless a line says otherwise.
//!
//! Every bound is judged inside the transaction that would exceed it. Bounds of tags, filters and pages are in
//! `aws_types::limits`; bounds of the store are the store's own.

/// Rules of one group per direction and address family (VPC quotas: 60).
pub const RULES_PER_GROUP_MAX: usize = 60;
/// Groups of one interface (VPC quotas: 5).
pub const GROUPS_PER_INTERFACE_MAX: usize = 5;
/// Groups of one VPC; the account quota of 2,500 a region is `[quota]`'s, this one always binds.
pub const GROUPS_PER_VPC_MAX: usize = 2_500;
/// Longest name or description of a group, in characters.
pub const GROUP_TEXT_CHARS_MAX: usize = 255;
/// Longest description of a rule or an interface, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 255;
/// Resources that one CreateTags or DeleteTags may name (EC2 API reference: 1,000).
pub const TAGGED_RESOURCES_MAX: usize = 1_000;
/// Explicit ids that one Describe may name (EC2 API reference: 1,000).
pub const DESCRIBED_IDS_MAX: usize = 1_000;
/// Addresses AWS keeps for itself at the start of each subnet: network, router, DNS, future use.
pub const SUBNET_RESERVED_HEAD: u32 = 4;
/// Addresses AWS keeps for itself at the end of each subnet: broadcast.
pub const SUBNET_RESERVED_TAIL: u32 = 1;
/// Reads one automatic address choice makes behind the cursor before it scans the subnet. Each is a compare of the
/// transaction, so a launch of many interfaces may not probe at length.
pub const ADDRESS_PROBES_MAX: u32 = 2;
/// MAC addresses tried for one interface; a second one is needed once in 2^40 / (interfaces in the cloud).
pub const MAC_PROBES_MAX: u32 = 8;
/// Seconds a released public address rests before it is given out again (`[external] quarantine_seconds`).
pub const PUBLIC_QUARANTINE_SECONDS: i64 = 60;
/// Addresses one public pool may hold: a /12. Larger ranges are refused at start.
pub const PUBLIC_POOL_ADDRESSES_MAX: u32 = 1 << 20;
/// Released public addresses looked at for one that may be given out, oldest first.
pub const PUBLIC_CANDIDATES_MAX: u64 = 32;
/// VPC numbers are VXLAN network identifiers: 24 bits.
pub const VPC_NUMBER_MAX: u32 = (1 << 24) - 1;
/// Zones a default network is built for: /20 blocks of a /16.
pub const DEFAULT_SUBNETS_MAX: usize = 16;
/// Specs the planner writes in one pass; the rest waits for the next, which follows at once.
pub const SPECS_PER_PASS_MAX: u64 = 500;
