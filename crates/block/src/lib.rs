//! Engine: volumes, snapshots and clones; the NBD server. Knows no AWS word.
