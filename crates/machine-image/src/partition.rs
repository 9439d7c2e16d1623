//! The tiny image's partition table: an MBR with a boot partition and, last, the root, which the guest grows by
//! changing one number (`guest`'s `growth` relies on this form).

/// Bytes of a sector.
pub const SECTOR: u64 = 512;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// First byte; a multiple of [`SECTOR`].
    pub start: u64,
    /// Length in bytes; a multiple of [`SECTOR`].
    pub length: u64,
    /// Type byte.
    pub kind: u8,
    /// The boot record starts this one.
    pub active: bool,
}

/// FAT16 with LBA addressing.
pub const FAT16_LBA: u8 = 0x0e;
/// Any Linux file system.
pub const LINUX: u8 = 0x83;

/// The first sector of a disk: `boot_code` (at most 440 bytes), a disk signature and up to four entries.
///
/// # Panics
/// The code is longer, or an entry is not in whole sectors below 2 TiB: mistakes of the caller.
#[must_use]
pub fn boot_record(boot_code: &[u8], signature: u32, entries: &[Entry]) -> [u8; SECTOR as usize] {
    assert!(boot_code.len() <= 440 && entries.len() <= 4, "what an MBR holds");
    let mut sector = [0; SECTOR as usize];
    sector[..boot_code.len()].copy_from_slice(boot_code);
    sector[440..444].copy_from_slice(&signature.to_le_bytes());
    for (entry, place) in entries.iter().zip(sector[446..510].chunks_exact_mut(16)) {
        assert!(
            entry.start.is_multiple_of(SECTOR) && entry.length.is_multiple_of(SECTOR),
            "whole sectors"
        );
        let number = |bytes: u64| u32::try_from(bytes / SECTOR).expect("below 2 TiB").to_le_bytes();
        place[0] = if entry.active { 0x80 } else { 0 };
        // Cylinder, head and sector numbers that mean "look at the linear ones".
        place[1..4].copy_from_slice(&[0xfe, 0xff, 0xff]);
        place[4] = entry.kind;
        place[5..8].copy_from_slice(&[0xfe, 0xff, 0xff]);
        place[8..12].copy_from_slice(&number(entry.start));
        place[12..16].copy_from_slice(&number(entry.length));
    }
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

#[cfg(test)]
mod tests {
    use super::{Entry, LINUX, boot_record};

    #[test]
    fn the_record_is_as_documented() {
        let entry = Entry {
            start: 1 << 20,
            length: 1 << 21,
            kind: LINUX,
            active: true,
        };
        let record = boot_record(&[0xeb; 440], 0x1234_5678, &[entry]);
        assert_eq!(record[439..444], [0xeb, 0x78, 0x56, 0x34, 0x12]);
        assert_eq!(record[446], 0x80);
        assert_eq!(record[450], 0x83);
        assert_eq!(record[454..462], [0, 8, 0, 0, 0, 16, 0, 0]);
        assert!(record[462..510].iter().all(|&byte| byte == 0));
        assert_eq!(record[510..], [0x55, 0xaa]);
    }
}
