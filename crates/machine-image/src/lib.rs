//! Builds and converts machine images into raw disks. Knows no AWS word; `spx image` draws the progress and makes
//! each result an image of the cloud.
//!
//! The map: [`tiny`] is the image of Debian's cloud kernel and our guest agent that boots in seconds; [`debian`]
//! is a Debian 12 with cloud-init; [`import`](mod@import) turns a raw or qcow2 file into a raw disk; [`kernel`]
//! fetches Debian's kernel package without installing it; [`modules`] orders kernel modules; [`archive`],
//! [`partition`] and [`libraries`] are the small formats and lookups that these need; [`tool`] runs the system's
//! own programs with bounds; [`output`] makes results appear whole or not at all.
//!
//! Invariants: no loop device, no mount, no network but the configured Debian mirror; a result's length is a whole
//! number of GiB and its holes are holes; a failed or cancelled build leaves nothing under the result's name.

pub mod archive;
pub mod debian;
pub mod error;
pub mod import;
pub mod kernel;
pub mod libraries;
pub mod limits;
pub mod modules;
pub mod output;
pub mod partition;
pub mod progress;
pub mod tiny;
pub mod tool;

pub use debian::{DebianRequest, build_debian12};
pub use error::ImageError;
pub use import::{ImportRequest, SourceFormat, import};
pub use kernel::{Kernel, cached_kernels, fetch_kernel};
pub use output::{BootMode, Built};
pub use progress::{Progress, Watcher};
pub use tiny::{TinyRequest, build_tiny};
