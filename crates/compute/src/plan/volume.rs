//! A volume's spec.

use crate::records::{GIB, Snapshot, Volume, VolumeState};
use node_spec::{SnapshotSource, VolumeIntent, VolumeSpec};

/// The spec of a volume; `snapshot` is the one it is made from. Only a volume whose state says so is to be deleted.
pub fn plan_volume(
    volume: &Volume,
    snapshot: Option<&Snapshot>,
    previous: Option<&VolumeSpec>,
) -> VolumeSpec {
    let intent = match (volume.state, previous) {
        (VolumeState::Deleting, _) => VolumeIntent::Deleted,
        // What a volume was made from does not change, and its snapshot may be gone by now.
        (
            _,
            Some(VolumeSpec {
                intent: VolumeIntent::Present { source, .. },
                ..
            }),
        ) => VolumeIntent::Present {
            size_bytes: u64::from(volume.size_gib) * GIB,
            source: source.clone(),
        },
        _ => VolumeIntent::Present {
            size_bytes: u64::from(volume.size_gib) * GIB,
            source: snapshot.map(|snapshot| SnapshotSource {
                snapshot: snapshot.id.clone(),
                handle: snapshot.handle.clone(),
            }),
        },
    };
    let spec = VolumeSpec {
        node: volume.node.clone(),
        volume: volume.id.clone(),
        account: volume.account,
        generation: previous.map_or(1, |previous| previous.generation),
        intent,
    };
    match previous {
        Some(previous) if *previous != spec => VolumeSpec {
            generation: previous.generation + 1,
            ..spec
        },
        _ => spec,
    }
}
