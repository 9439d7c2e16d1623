//! The vocabulary every room shares: ids, ARNs, tags, filters, paging tokens, the AWS error and its catalogue.
//!
//! Nothing here does I/O or knows a service. What is stored, sent or logged in more than one room has its type
//! here; what only one service says has it there. The wire form of an error is chosen in `aws-wire`.

pub mod account;
pub mod arn;
pub mod error;
pub mod filter;
pub mod ids;
pub mod limits;
pub mod page;
pub mod pattern;
pub mod tag;

pub use account::{AccountId, AvailabilityZone, Region};
pub use arn::Arn;
pub use error::{AwsError, ErrorCode, Fault, catalogue};
pub use tag::{Tag, Tags};
