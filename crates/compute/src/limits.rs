//! Named bounds of the compute service (compute.md 2.5). Numbers are AWS's where AWS documents one.

use std::time::Duration;

/// Largest user data in bytes, decoded.
pub const USER_DATA_BYTES_MAX: usize = 16_384;
/// Most instances one RunInstances creates; larger `MaxCount`s are well-formed and cut to this.
pub const INSTANCES_PER_LAUNCH_MAX: u32 = 1000;
/// Most ids one start, stop, reboot, terminate or describe may name.
pub const IDS_PER_CALL_MAX: usize = 1000;
/// Most ids one DescribeInstanceStatus may name.
pub const STATUS_IDS_PER_CALL_MAX: usize = 100;
/// Most type names one DescribeInstanceTypes may name.
pub const TYPE_NAMES_PER_CALL_MAX: usize = 100;
/// Most type names of a page of DescribeInstanceTypes.
pub const TYPES_PER_PAGE_MAX: i32 = 100;
/// Most key pairs of an account.
pub const KEY_PAIRS_PER_ACCOUNT_MAX: usize = 5000;
/// Longest key pair name in ASCII characters.
pub const KEY_NAME_CHARS_MAX: usize = 255;
/// Shortest and longest image name in characters.
pub const IMAGE_NAME_CHARS: std::ops::RangeInclusive<usize> = 3..=128;
/// Longest image description in characters.
pub const IMAGE_DESCRIPTION_CHARS_MAX: usize = 255;
/// Volumes and interfaces that fit into one instance, and so the number of persisted PCI slots.
pub const DEVICES_PER_INSTANCE_MAX: usize = 28;
/// Losses of a running guest within [`RECOVERY_WINDOW`] after which it is not started again.
pub const RECOVERIES_MAX: usize = 3;
/// Time in which losses of a guest are counted.
pub const RECOVERY_WINDOW: time::Duration = time::Duration::minutes(10);
/// Size of a general purpose volume in GiB.
pub const VOLUME_SIZE_GIB: std::ops::RangeInclusive<u32> = 1..=16_384;
/// How long a terminated instance stays visible.
pub const TERMINATED_VISIBLE: time::Duration = time::Duration::hours(1);
/// Bytes of the console that GetConsoleOutput returns.
pub const CONSOLE_BYTES_MAX: usize = 64 * 1024;
/// Memory charged per guest beyond its own, for the hypervisor process.
pub const HYPERVISOR_OVERHEAD_MIB: u64 = 48;
/// Translation buffer that an emulated guest may use, charged in full.
pub const TRANSLATION_BUFFER_MIB: u64 = 128;
/// Memory charged per attached volume, for its export process (ebs.md).
pub const EXPORT_MIB: u64 = 16;
/// Shares of a host thread that a vCPU of a burstable type costs, in thousandths: ratio 4.
pub const BURSTABLE_VCPU_MILLITHREADS: u64 = 250;
/// Shares of a host thread that a vCPU of any other type costs, in thousandths: ratio 1.
pub const FIXED_VCPU_MILLITHREADS: u64 = 1000;
/// Instances one pass of the reconciler looks at before it yields to the next pass.
pub const INSTANCES_PER_PASS_MAX: usize = 512;
/// An observation older than this, of a node that should report, tells nothing (R51).
pub const NODE_SILENT_AFTER: Duration = Duration::from_secs(60);
/// Most operations one store transaction of a launch contains; larger launches go in batches (R14).
pub const OPS_PER_TRANSACTION_MAX: usize = 1024;
/// Largest page of the EC2 lists that bound it.
pub const PAGE_ITEMS_MAX: i32 = 1000;
/// Smallest page of the EC2 lists that bound it.
pub const PAGE_ITEMS_MIN: i32 = 5;
/// How long a guest runs before its status checks are reported; AWS's take a few minutes.
pub const CHECKS_INITIALIZING: time::Duration = time::Duration::seconds(10);
/// Instances one transaction of StopInstances, RebootInstances or TerminateInstances changes.
pub const CHANGES_PER_TRANSACTION_MAX: usize = 250;
/// Instances one transaction of StartInstances changes: each takes room and addresses.
pub const STARTS_PER_TRANSACTION_MAX: usize = 50;
/// Volumes of a page that names its size (ebs.md, limits).
pub const VOLUMES_PER_PAGE_MAX: usize = 500;
/// How soon a reconciler tries an item again that failed.
pub const ITEM_RETRY: Duration = Duration::from_secs(2);
/// After this time the reconciler completes a launch that its call has not.
pub const LAUNCH_CALL_MAX: time::Duration = time::Duration::seconds(60);
