//! Growing the root to its disk: the partition before it is mounted, the file system after. The image's partition
//! table is our own (MBR; the root is entry 2 and last), so growing is one number in one sector; anything else
//! is left alone. Done already is success and costs one read.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::error::{GuestError, file, kernel};
use crate::sys;

const SECTOR: u64 = 512;
const ROOT_ENTRY: usize = 1;
const TYPE_LINUX: u8 = 0x83;

/// Makes the partition end where its disk ends, if it is the last entry of the image's own table.
pub fn grow_partition(partition: &Path) -> Result<(), GuestError> {
    let sysfs = Path::new("/sys/class/block").join(partition.file_name().unwrap_or_default());
    let real = fs::canonicalize(&sysfs).map_err(file("resolving", &sysfs))?;
    let disk_sysfs = real.parent().unwrap_or(&real);
    let disk = Path::new("/dev").join(disk_sysfs.file_name().unwrap_or_default());
    let sectors = read_number(&disk_sysfs.join("size"))?;

    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&disk)
        .map_err(file("opening", &disk))?;
    let mut table = [0; SECTOR as usize];
    device
        .read_exact_at(&mut table, 0)
        .map_err(file("reading", &disk))?;
    let Some((start, length)) =
        grown(&mut table, sectors).ok_or(GuestError::PartitionTable { disk: disk.clone() })?
    else {
        return Ok(());
    };
    device.write_all_at(&table, 0).map_err(file("writing", &disk))?;
    device.sync_all().map_err(file("writing", &disk))?;
    let number = i32::try_from(ROOT_ENTRY + 1).expect("a small constant");
    sys::resize_partition(&device, number, start * SECTOR, length * SECTOR)
        .map_err(kernel("telling the kernel the partition's new size"))
}

/// Changes the table so that the root ends with the disk. `Some(None)` when it does already, `None` when the table
/// is not ours. A disk of 2 TiB or more is used up to what the table can say.
fn grown(table: &mut [u8; SECTOR as usize], sectors: u64) -> Option<Option<(u64, u64)>> {
    let entry = |n: usize| 446 + 16 * n;
    let root = entry(ROOT_ENTRY);
    let word =
        |table: &[u8], at: usize| u32::from_le_bytes(table[at..at + 4].try_into().expect("four bytes"));
    let last = table[entry(2) + 4] == 0 && table[entry(3) + 4] == 0;
    if table[510..] != [0x55, 0xaa] || table[root + 4] != TYPE_LINUX || !last {
        return None;
    }
    let start = word(table, root + 8);
    let length = u32::try_from(sectors.checked_sub(u64::from(start))?).unwrap_or(u32::MAX);
    // Whole 4 KiB blocks; a smaller disk than the table says is not ours to judge.
    let length = length & !7;
    if length <= word(table, root + 12) {
        return Some(None);
    }
    table[root + 12..root + 16].copy_from_slice(&length.to_le_bytes());
    Some(Some((u64::from(start), u64::from(length))))
}

/// Grows the mounted file system to its partition.
pub fn grow_file_system(partition: &Path, mounted: &Path) -> Result<(), GuestError> {
    let name = partition.file_name().unwrap_or_default();
    let bytes = read_number(&Path::new("/sys/class/block").join(name).join("size"))? * SECTOR;
    let status = rustix::fs::statvfs(mounted).map_err(kernel("measuring the root file system"))?;
    let wanted = bytes / status.f_bsize;
    // `f_blocks` leaves out what the file system keeps for itself, at most a few per cent of a small one.
    if wanted <= status.f_blocks + status.f_blocks / 8 + 4096 {
        return Ok(());
    }
    let root = File::open(mounted).map_err(file("opening", mounted))?;
    sys::resize_ext4(&root, wanted).map_err(kernel("growing the root file system"))
}

fn read_number(path: &PathBuf) -> Result<u64, GuestError> {
    let text = fs::read_to_string(path).map_err(file("reading", path))?;
    let parsed = text.trim().parse().map_err(std::io::Error::other);
    parsed.map_err(file("understanding", path))
}

#[cfg(test)]
mod tests {
    use super::grown;

    fn table() -> [u8; 512] {
        let mut table = [0; 512];
        table[510..].copy_from_slice(&[0x55, 0xaa]);
        table[446 + 4] = 0x0e;
        table[462 + 4] = 0x83;
        table[462 + 8..462 + 12].copy_from_slice(&65_536u32.to_le_bytes());
        table[462 + 12..462 + 16].copy_from_slice(&32_768u32.to_le_bytes());
        table
    }

    #[test]
    fn the_root_grows_to_the_end_once() {
        let mut bytes = table();
        assert_eq!(grown(&mut bytes, 2_097_153), Some(Some((65_536, 2_031_616))));
        assert_eq!(grown(&mut bytes, 2_097_153), Some(None));
        assert_eq!(grown(&mut bytes, 1 << 40), Some(Some((65_536, 0xffff_fff8))));
    }

    #[test]
    fn foreign_tables_are_left_alone() {
        let mut third = table();
        third[478 + 4] = 0x83;
        let mut unsigned = table();
        unsigned[510] = 0;
        let mut other = table();
        other[462 + 4] = 0x07;
        for mut bytes in [third, unsigned, other] {
            let before = bytes;
            assert_eq!(grown(&mut bytes, 1 << 30), None);
            assert_eq!(bytes, before);
        }
        let mut bytes = table();
        assert_eq!(
            grown(&mut bytes, 1000),
            None,
            "a disk that ends before its partition starts"
        );
    }
}
