//! Where the contract's records are stored: one table each, scoped by the node, so that an agent watches one prefix a table.

use crate::{
    GuestMetadata, GuestObservation, GuestSpec, NetworkObservation, NetworkSpec, NodeRecord,
    VolumeObservation, VolumeSpec,
};
use state::{Index, Record, RecordKey};

macro_rules! node_scoped {
    ($($record:ty, $table:literal, $id:ident;)*) => {$(
        impl Record for $record {
            const TABLE: &'static str = $table;
            const VERSION: u32 = 1;

            fn key(&self) -> RecordKey {
                RecordKey::node(&self.node, &self.$id)
            }
        }
    )*};
}

node_scoped! {
    GuestSpec, "guest-spec", instance;
    GuestObservation, "guest-observation", instance;
    GuestMetadata, "guest-metadata", instance;
    VolumeSpec, "volume-spec", volume;
    VolumeObservation, "volume-observation", volume;
    NetworkSpec, "network-spec", vpc;
    NetworkObservation, "network-observation", vpc;
}

impl Record for NodeRecord {
    const TABLE: &'static str = "node";
    const VERSION: u32 = 1;

    fn key(&self) -> RecordKey {
        RecordKey::global(&self.id)
    }

    fn uniques(&self) -> Vec<Index> {
        vec![Index::new("name", [self.name.as_str()])]
    }
}
