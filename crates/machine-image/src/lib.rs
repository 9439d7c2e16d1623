//! Builds and converts machine images (tiny, debian-12, imports) into raw disks. Knows no AWS word.
