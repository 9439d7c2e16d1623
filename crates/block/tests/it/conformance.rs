//! The contract (requirements/ebs.md §3.5), one suite for every provider: rows, error cells, data laws, paging, races.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use block::device::{DeviceError, ExtentKind, ZeroMode};
use block::file::FilePool;
use block::id::{Generation, VolumeHandle};
use block::provider::{
    Argument, CapacityRange, CreateSnapshot, CreateVolume, Deletion, ImportSnapshot, Outcome, ProviderError,
    SealedBy, SnapshotState, Unpublication, VolumeProvider, VolumeSource, VolumeState,
};
use bytes::Bytes;

use crate::stage::{MIB, Stage, file, file_config, memory, node, open, publish, snapshot, volume};

macro_rules! every_provider {
    ($($name:ident),+ $(,)?) => {
        mod on_memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(super::memory()).await; })+
        }
        mod on_file {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(super::file()).await; })+
        }
    };
}

every_provider!(
    create_fetch_delete,
    create_refusals,
    seeded_volume,
    snapshot_clone_in_every_order,
    snapshot_rows,
    copies_and_imports,
    publish_rows,
    thirty_two_racing_publishes,
    one_holder_and_fencing,
    read_only_publication,
    expand_rows,
    pages,
    reads_and_writes,
    zeros_and_extents,
);

fn cut(name: &str, of: &str) -> CreateSnapshot {
    CreateSnapshot {
        snapshot: snapshot(name),
        volume: volume(of),
        volume_handle: None,
    }
}

fn argument(error: ProviderError) -> Argument {
    assert_eq!(error.outcome(), Outcome::Refused);
    match error {
        ProviderError::InvalidArgument { source, .. } => source,
        other => panic!("not an invalid argument: {other:?}"),
    }
}

async fn create_fetch_delete(stage: Stage) {
    let p = &stage.provider;
    let id = volume("vol-1");
    let made = stage.blank("vol-1", MIB).await;
    assert_eq!((made.capacity_bytes, made.state), (MIB, VolumeState::Available));
    // The same request: the same object.
    assert_eq!(stage.blank("vol-1", MIB).await, made);
    assert_eq!(p.fetch_volume(&id, Some(made.handle)).await.unwrap(), made);
    let other = VolumeHandle::mint();
    assert!(matches!(
        p.fetch_volume(&id, Some(other)).await,
        Err(ProviderError::NotFound(_))
    ));
    assert!(matches!(
        p.fetch_volume(&volume("vol-2"), None).await,
        Err(ProviderError::NotFound(_))
    ));
    // Another request for the id.
    let error = p
        .create_volume(CreateVolume::blank(id.clone(), 2 * MIB))
        .await
        .unwrap_err();
    assert!(matches!(error, ProviderError::AlreadyExists(_)));
    assert_eq!(
        p.delete_volume(&id, Some(other)).await.unwrap(),
        Deletion::OtherIncarnation
    );
    assert_eq!(
        p.delete_volume(&id, Some(made.handle)).await.unwrap(),
        Deletion::Deleted
    );
    assert_eq!(p.delete_volume(&id, None).await.unwrap(), Deletion::AlreadyGone);
    // A new incarnation under the old id.
    let again = stage.blank("vol-1", MIB).await;
    assert_ne!(again.handle, made.handle);
    assert!(matches!(
        p.fetch_volume(&id, Some(made.handle)).await,
        Err(ProviderError::NotFound(_))
    ));
    assert_eq!(
        p.delete_volume(&id, Some(made.handle)).await.unwrap(),
        Deletion::OtherIncarnation
    );
}

async fn create_refusals(stage: Stage) {
    let p = &stage.provider;
    let with = |range| CreateVolume {
        capacity: range,
        ..CreateVolume::blank(volume("vol-1"), MIB)
    };
    let range = |required_bytes, limit_bytes| CapacityRange {
        required_bytes,
        limit_bytes,
    };
    for bytes in [0, 1, 4095, MIB + 1] {
        let error = argument(p.create_volume(with(range(bytes, None))).await.unwrap_err());
        assert!(
            matches!(error, Argument::CapacityUnaligned { .. }),
            "{bytes}: {error}"
        );
    }
    let error = argument(
        p.create_volume(with(range(MIB, Some(MIB - 4096))))
            .await
            .unwrap_err(),
    );
    assert!(matches!(error, Argument::CapacityAboveLimit { .. }));
    let max = p.capabilities().volume_bytes_max;
    let error = argument(p.create_volume(with(range(max + 4096, None))).await.unwrap_err());
    assert!(matches!(error, Argument::CapacityAboveMax { .. }));
    let many: BTreeMap<_, _> = (0..100).map(|n| (n.to_string(), String::new())).collect();
    let request = CreateVolume {
        parameters: many,
        ..with(range(MIB, None))
    };
    assert!(matches!(
        argument(p.create_volume(request).await.unwrap_err()),
        Argument::Parameters
    ));
    let unknown = VolumeSource::Snapshot {
        snapshot: snapshot("snap-x"),
        source_volume: volume("vol-x"),
    };
    let request = CreateVolume {
        source: unknown,
        ..with(range(MIB, None))
    };
    assert!(matches!(
        p.create_volume(request).await,
        Err(ProviderError::NotFound(_))
    ));
    // Nothing of this left anything.
    assert!(p.list_volumes(0, None).await.unwrap().items.is_empty());
    assert!(p.create_volume(with(range(MIB, Some(MIB)))).await.is_ok());
}

async fn seeded_volume(stage: Stage) {
    let p = &stage.provider;
    let with = |bytes: Bytes| CreateVolume {
        source: VolumeSource::Seed { bytes },
        ..CreateVolume::blank(volume("vol-1"), MIB)
    };
    let error = argument(
        p.create_volume(with(Bytes::from(vec![1; 655_361])))
            .await
            .unwrap_err(),
    );
    assert!(matches!(error, Argument::SeedTooLarge { .. }));
    let made = p
        .create_volume(with(Bytes::from_static(b"firmware variables")))
        .await
        .unwrap();
    assert_eq!(
        p.create_volume(with(Bytes::from_static(b"firmware variables")))
            .await
            .unwrap(),
        made
    );
    let other = p.create_volume(with(Bytes::from_static(b"other"))).await;
    assert!(matches!(other, Err(ProviderError::AlreadyExists(_))));
    let device = stage.opened("vol-1").await;
    assert_eq!(
        &device.read_at(0, 20).await.unwrap()[..],
        b"firmware variables\0\0"
    );
}

/// A volume with a byte in each of three places, its snapshot, a clone, and the clone's snapshot: deleted in all 24 orders.
async fn snapshot_clone_in_every_order(stage: Stage) {
    let p = &stage.provider;
    let mut orders = Vec::new();
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            for c in (0..4).filter(|c| ![a, b].contains(c)) {
                orders.push([a, b, c, 6 - a - b - c]);
            }
        }
    }
    assert_eq!(orders.len(), 24);
    for order in orders {
        stage.blank("vol-a", MIB).await;
        let device = stage.opened("vol-a").await;
        device
            .write_at(5000, Bytes::from_static(b"source"), false)
            .await
            .unwrap();
        stage.put_away("vol-a", device).await;
        let snap_a = p.create_snapshot(cut("snap-a", "vol-a")).await.unwrap();
        p.create_volume(CreateVolume::from_snapshot(volume("vol-b"), 2 * MIB, &snap_a))
            .await
            .unwrap();
        let device = stage.opened("vol-b").await;
        assert_eq!(&device.read_at(5000, 6).await.unwrap()[..], b"source");
        assert!(device.read_at(MIB, 4096).await.unwrap().iter().all(|b| *b == 0));
        device
            .write_at(5000, Bytes::from_static(b"cloned"), false)
            .await
            .unwrap();
        stage.put_away("vol-b", device).await;
        p.create_snapshot(cut("snap-b", "vol-b")).await.unwrap();
        let mut left = vec![0, 1, 2, 3];
        for gone in order {
            let deletion = match gone {
                0 => p.delete_volume(&volume("vol-a"), None).await,
                1 => p.delete_snapshot(&snapshot("snap-a"), None).await,
                2 => p.delete_volume(&volume("vol-b"), None).await,
                _ => p.delete_snapshot(&snapshot("snap-b"), None).await,
            };
            assert_eq!(deletion.unwrap(), Deletion::Deleted);
            left.retain(|n| *n != gone);
            for survivor in &left {
                let (name, wanted) = [
                    ("vol-a", b"source"),
                    ("snap-a", b"source"),
                    ("vol-b", b"cloned"),
                    ("snap-b", b"cloned"),
                ][*survivor];
                let device = match survivor % 2 {
                    0 => stage.opened(name).await,
                    _ => p.open_snapshot(&snapshot(name), None).await.unwrap(),
                };
                assert_eq!(
                    &device.read_at(5000, 6).await.unwrap()[..],
                    wanted,
                    "{name} in {order:?}"
                );
                if survivor % 2 == 0 {
                    stage.put_away(name, device).await;
                }
            }
        }
    }
    assert!(p.list_volumes(0, None).await.unwrap().items.is_empty());
    assert!(p.list_snapshots(0, None).await.unwrap().items.is_empty());
}

async fn snapshot_rows(stage: Stage) {
    let p = &stage.provider;
    let made = stage.blank("vol-1", MIB).await;
    assert!(matches!(
        p.create_snapshot(cut("snap-1", "vol-x")).await,
        Err(ProviderError::NotFound(_))
    ));
    let other = CreateSnapshot {
        volume_handle: Some(VolumeHandle::mint()),
        ..cut("snap-1", "vol-1")
    };
    assert!(matches!(
        p.create_snapshot(other).await,
        Err(ProviderError::NotFound(_))
    ));
    let view = p.create_snapshot(cut("snap-1", "vol-1")).await.unwrap();
    assert_eq!((view.size_bytes, view.state), (MIB, SnapshotState::Completed));
    assert_eq!(view.source_volume, volume("vol-1"));
    let device = p
        .open_snapshot(&snapshot("snap-1"), Some(view.handle))
        .await
        .unwrap();
    assert!(matches!(
        device.write_at(0, Bytes::from_static(b"x"), false).await,
        Err(DeviceError::ReadOnly)
    ));
    stage.blank("vol-2", MIB).await;
    assert!(matches!(
        p.create_snapshot(cut("snap-1", "vol-2")).await,
        Err(ProviderError::AlreadyExists(_))
    ));
    // While published: as the capability says.
    let device = stage.opened("vol-2").await;
    device
        .write_at(0, Bytes::from_static(b"before"), false)
        .await
        .unwrap();
    match p.create_snapshot(cut("snap-2", "vol-2")).await {
        Ok(_) => {
            assert!(p.capabilities().crash_consistent_snapshot);
            device
                .write_at(0, Bytes::from_static(b"after!"), false)
                .await
                .unwrap();
            let cut = p.open_snapshot(&snapshot("snap-2"), None).await.unwrap();
            assert_eq!(&cut.read_at(0, 6).await.unwrap()[..], b"before");
        }
        Err(ProviderError::VolumeInUse(_)) => assert!(!p.capabilities().crash_consistent_snapshot),
        Err(other) => panic!("{other:?}"),
    }
    // A retry returns it even when the volume is gone, and a clone must be at least as large.
    p.delete_volume(&volume("vol-1"), Some(made.handle))
        .await
        .unwrap();
    assert_eq!(p.create_snapshot(cut("snap-1", "vol-1")).await.unwrap(), view);
    let small = CreateVolume::from_snapshot(volume("vol-3"), MIB - 4096, &view);
    let error = argument(p.create_volume(small).await.unwrap_err());
    assert!(matches!(error, Argument::CapacityBelowSnapshot { .. }));
    let wrong = VolumeSource::Snapshot {
        snapshot: snapshot("snap-1"),
        source_volume: volume("vol-2"),
    };
    let wrong = CreateVolume {
        source: wrong,
        ..CreateVolume::blank(volume("vol-3"), MIB)
    };
    let error = argument(p.create_volume(wrong).await.unwrap_err());
    assert!(matches!(error, Argument::SourceVolumeDiffers { .. }));
}

async fn copies_and_imports(stage: Stage) {
    let p = &stage.provider;
    let path = stage.directory.path().join("image.raw");
    let image = std::fs::File::create(&path).unwrap();
    image.set_len(3 * MIB + 100).unwrap();
    image.write_all_at(b"boot sector", 0).unwrap();
    image.write_all_at(&[0; 65536], MIB).unwrap();
    image.write_all_at(b"end", 3 * MIB + 97).unwrap();
    let request = ImportSnapshot {
        snapshot: snapshot("snap-image"),
        source_volume: volume("vol-ffffffff"),
        digest: "sha256:1".to_owned(),
    };
    let view = p.import_snapshot(request.clone(), &path).await.unwrap();
    assert_eq!(view.size_bytes, 3 * MIB + 4096);
    let space = p.stat_snapshot(&snapshot("snap-image"), None).await.unwrap();
    assert!(space.allocated_bytes <= 16384, "zeros are not stored: {space:?}");
    assert_eq!(p.import_snapshot(request.clone(), &path).await.unwrap(), view);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        p.import_snapshot(request.clone(), &path).await.unwrap(),
        view,
        "a retry needs no file"
    );
    let other = ImportSnapshot {
        digest: "sha256:2".to_owned(),
        ..request
    };
    assert!(p.import_snapshot(other, &path).await.is_err());

    let (source, copy) = (snapshot("snap-image"), snapshot("snap-copy"));
    let from = volume("vol-ffffffff");
    assert!(matches!(
        argument(p.copy_snapshot(&source, &source, &from).await.unwrap_err()),
        Argument::CopyOntoItself(_)
    ));
    let error = argument(
        p.copy_snapshot(&source, &copy, &volume("vol-1"))
            .await
            .unwrap_err(),
    );
    assert!(matches!(error, Argument::SourceVolumeDiffers { .. }));
    let unknown = p.copy_snapshot(&snapshot("snap-x"), &copy, &from).await;
    assert!(matches!(unknown, Err(ProviderError::NotFound(_))));
    let copied = p.copy_snapshot(&source, &copy, &from).await.unwrap();
    assert_eq!(copied.size_bytes, view.size_bytes);
    assert_ne!(copied.handle, view.handle);
    assert_eq!(p.copy_snapshot(&source, &copy, &from).await.unwrap(), copied);
    let taken = p.create_snapshot(cut("snap-copy", "vol-ffffffff")).await;
    assert!(matches!(taken, Err(ProviderError::AlreadyExists(_))));
    assert_eq!(p.delete_snapshot(&source, None).await.unwrap(), Deletion::Deleted);
    let device = p.open_snapshot(&copy, None).await.unwrap();
    assert_eq!(&device.read_at(0, 11).await.unwrap()[..], b"boot sector");
    assert_eq!(&device.read_at(3 * MIB + 97, 4).await.unwrap()[..], b"end\0");
}

async fn publish_rows(stage: Stage) {
    let p = &stage.provider;
    let id = volume("vol-1");
    assert!(matches!(
        p.publish_volume(publish(&id)).await,
        Err(ProviderError::NotFound(_))
    ));
    let made = stage.blank("vol-1", MIB).await;
    let first = p.publish_volume(publish(&id)).await.unwrap();
    assert_eq!((first.generation, first.handle), (Generation(1), made.handle));
    assert_eq!(p.fetch_volume(&id, None).await.unwrap().state, VolumeState::InUse);
    assert_eq!(p.publish_volume(publish(&id)).await.unwrap(), first);
    assert_eq!(p.find_publication(&id).await.unwrap(), Some(first.clone()));
    let elsewhere = block::provider::PublishVolume {
        node: node("n2"),
        ..publish(&id)
    };
    assert!(matches!(
        p.publish_volume(elsewhere).await,
        Err(ProviderError::VolumeInUse(_))
    ));
    let other_flag = block::provider::PublishVolume {
        read_only: true,
        ..publish(&id)
    };
    assert!(matches!(
        p.publish_volume(other_flag).await,
        Err(ProviderError::VolumeInUse(_))
    ));
    assert!(matches!(
        p.delete_volume(&id, None).await,
        Err(ProviderError::VolumeInUse(_))
    ));
    let wrong = Some(VolumeHandle::mint());
    assert_eq!(
        p.delete_volume(&id, wrong).await.unwrap(),
        Deletion::OtherIncarnation
    );
    // Nothing to end: success without effect.
    for (volume, handle, at) in [
        (volume("vol-x"), None, "n1"),
        (id.clone(), None, "n2"),
        (id.clone(), wrong, "n1"),
    ] {
        let nothing = p.unpublish_volume(&volume, handle, &node(at)).await.unwrap();
        assert_eq!(nothing, Unpublication::NothingPublished);
    }
    let Unpublication::Sealed(receipt) = p.unpublish_volume(&id, None, &node("n1")).await.unwrap() else {
        panic!("not sealed")
    };
    assert_eq!(
        (receipt.generation, receipt.sealed_by),
        (Generation(1), SealedBy::NeverOpened)
    );
    assert_eq!(
        p.fetch_volume(&id, None).await.unwrap().state,
        VolumeState::Available
    );
    // Generations only rise.
    let with = |generation| block::provider::PublishVolume {
        generation: Some(generation),
        ..publish(&id)
    };
    for used in [0, 1] {
        let error = p.publish_volume(with(Generation(used))).await.unwrap_err();
        assert!(
            matches!(
                error,
                ProviderError::Fenced {
                    current: Generation(1),
                    ..
                }
            ),
            "{error:?}"
        );
    }
    assert_eq!(
        p.publish_volume(with(Generation(7))).await.unwrap().generation,
        Generation(7)
    );
    assert_eq!(
        p.publish_volume(with(Generation(7))).await.unwrap().generation,
        Generation(7)
    );
    assert!(matches!(
        p.publish_volume(with(Generation(6))).await,
        Err(ProviderError::Fenced { .. })
    ));
    // Two live publications never share an address.
    stage.blank("vol-2", MIB).await;
    let second = p.publish_volume(publish(&volume("vol-2"))).await.unwrap();
    assert_ne!(second.export, first.export);
}

async fn thirty_two_racing_publishes(stage: Stage) {
    stage.blank("vol-1", MIB).await;
    let racers: Vec<_> = (0..32)
        .map(|n| {
            let provider = Arc::clone(&stage.provider);
            let request = block::provider::PublishVolume {
                node: node(&format!("n{n}")),
                ..publish(&volume("vol-1"))
            };
            tokio::spawn(async move { provider.publish_volume(request).await })
        })
        .collect();
    let mut winners = 0;
    for racer in racers {
        match racer.await.unwrap() {
            Ok(_) => winners += 1,
            Err(ProviderError::VolumeInUse(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(winners, 1);
}

async fn one_holder_and_fencing(stage: Stage) {
    let p = &stage.provider;
    let id = volume("vol-1");
    let made = stage.blank("vol-1", MIB).await;
    let unpublished = block::provider::OpenVolume {
        volume: id.clone(),
        handle: made.handle,
        generation: Generation(1),
    };
    assert!(matches!(
        p.open_volume(unpublished.clone()).await,
        Err(ProviderError::NotPublished(_))
    ));
    let first = p.publish_volume(publish(&id)).await.unwrap();
    let device = p.open_volume(open(&first)).await.unwrap();
    assert!(matches!(
        p.open_volume(open(&first)).await,
        Err(ProviderError::VolumeInUse(_))
    ));
    let stale = block::provider::OpenVolume {
        generation: Generation(2),
        ..open(&first)
    };
    assert!(p.open_volume(stale).await.is_err());
    device
        .write_at(0, Bytes::from_static(b"mine"), true)
        .await
        .unwrap();
    let busy = p.unpublish_volume(&id, None, &node("n1")).await.unwrap_err();
    assert!(
        matches!(busy, ProviderError::Unavailable { .. }),
        "still open: {busy:?}"
    );
    // A higher generation: the old owner can change nothing any more, but the new one cannot open before it has let go.
    let taken = block::provider::PublishVolume {
        generation: Some(Generation(5)),
        ..publish(&id)
    };
    let second = p.publish_volume(taken).await.unwrap();
    assert!(matches!(
        device.check_owner().await,
        Err(DeviceError::Fenced {
            current: Generation(5),
            ..
        })
    ));
    let late = Bytes::from_static(b"late");
    assert!(matches!(
        device.write_at(0, late, false).await,
        Err(DeviceError::Fenced { .. })
    ));
    assert!(matches!(
        device.trim(0, 4096, false).await,
        Err(DeviceError::Fenced { .. })
    ));
    assert!(matches!(
        device.write_zeroes(0, 1, ZeroMode::default()).await,
        Err(DeviceError::Fenced { .. })
    ));
    assert!(matches!(device.flush().await, Err(DeviceError::Fenced { .. })));
    assert!(
        matches!(device.close().await, Err(DeviceError::Fenced { .. })),
        "a stale owner seals nothing"
    );
    assert!(p.open_volume(open(&first)).await.is_err());
    drop(device);
    let device = p.open_volume(open(&second)).await.unwrap();
    assert_eq!(&device.read_at(0, 4).await.unwrap()[..], b"mine");
    // Dropped without a close: unpublish seals in its place.
    device
        .write_at(0, Bytes::from_static(b"kept"), false)
        .await
        .unwrap();
    drop(device);
    let sealed = p.unpublish_volume(&id, None, &node("n1")).await.unwrap();
    let Unpublication::Sealed(receipt) = sealed else {
        panic!("not sealed")
    };
    assert_eq!(
        (receipt.generation, receipt.sealed_by),
        (Generation(5), SealedBy::Unpublish)
    );
    let device = stage.opened("vol-1").await;
    assert_eq!(&device.read_at(0, 4).await.unwrap()[..], b"kept");
    device.close().await.unwrap();
    device.close().await.unwrap();
    let late = Bytes::from_static(b"late");
    assert!(matches!(
        device.write_at(0, late, false).await,
        Err(DeviceError::Closed)
    ));
    assert!(matches!(device.read_at(0, 4).await, Err(DeviceError::Closed)));
    let sealed = p
        .unpublish_volume(&id, Some(made.handle), &node("n1"))
        .await
        .unwrap();
    let Unpublication::Sealed(receipt) = sealed else {
        panic!("not sealed")
    };
    assert_eq!(
        (receipt.generation, receipt.sealed_by),
        (Generation(6), SealedBy::Owner)
    );
    p.delete_volume(&id, None).await.unwrap();
    assert!(matches!(
        p.open_volume(unpublished).await,
        Err(ProviderError::NotFound(_))
    ));
}

async fn read_only_publication(stage: Stage) {
    let p = &stage.provider;
    stage.blank("vol-1", MIB).await;
    let request = block::provider::PublishVolume {
        read_only: true,
        ..publish(&volume("vol-1"))
    };
    let publication = p.publish_volume(request).await.unwrap();
    let device = p.open_volume(open(&publication)).await.unwrap();
    assert!(device.is_read_only());
    let x = Bytes::from_static(b"x");
    assert!(matches!(
        device.write_at(0, x, false).await,
        Err(DeviceError::ReadOnly)
    ));
    assert!(matches!(
        device.trim(0, 4096, false).await,
        Err(DeviceError::ReadOnly)
    ));
    assert!(matches!(
        device.write_zeroes(0, 1, ZeroMode::default()).await,
        Err(DeviceError::ReadOnly)
    ));
    device.flush().await.unwrap();
    assert_eq!(&device.read_at(0, 1).await.unwrap()[..], b"\0");
    stage.put_away("vol-1", device).await;
}

async fn expand_rows(stage: Stage) {
    let p = &stage.provider;
    let id = volume("vol-1");
    let made = stage.blank("vol-1", MIB).await;
    let to = |bytes| CapacityRange::exactly(bytes);
    assert!(matches!(
        p.expand_volume(&volume("vol-x"), None, to(MIB)).await,
        Err(ProviderError::NotFound(_))
    ));
    let wrong = Some(VolumeHandle::mint());
    assert!(matches!(
        p.expand_volume(&id, wrong, to(MIB)).await,
        Err(ProviderError::NotFound(_))
    ));
    let error = argument(p.expand_volume(&id, None, to(MIB - 4096)).await.unwrap_err());
    assert!(matches!(error, Argument::CapacityBelowCurrent { .. }));
    let error = argument(p.expand_volume(&id, None, to(MIB + 1)).await.unwrap_err());
    assert!(matches!(error, Argument::CapacityUnaligned { .. }));
    assert_eq!(p.expand_volume(&id, None, to(MIB)).await.unwrap(), made);
    let device = stage.opened("vol-1").await;
    assert!(matches!(
        device.read_at(MIB, 1).await,
        Err(DeviceError::OutOfRange { .. })
    ));
    assert!(p.capabilities().online_expansion);
    let grown = p
        .expand_volume(&id, Some(made.handle), to(2 * MIB))
        .await
        .unwrap();
    assert_eq!(grown.capacity_bytes, 2 * MIB);
    assert_eq!(device.refresh_size().await.unwrap(), 2 * MIB);
    assert_eq!(device.read_at(2 * MIB - 1, 1).await.unwrap()[0], 0);
    device
        .write_at(2 * MIB - 1, Bytes::from_static(b"x"), false)
        .await
        .unwrap();
    // A retry of the first create still finds it.
    assert_eq!(stage.blank("vol-1", MIB).await.capacity_bytes, 2 * MIB);
}

async fn pages(stage: Stage) {
    let p = &stage.provider;
    let names: Vec<String> = (0..7).map(|n| format!("vol-{n}")).collect();
    for name in names.iter().rev() {
        stage.blank(name, MIB).await;
        p.create_snapshot(cut(&name.replace("vol", "snap"), name))
            .await
            .unwrap();
    }
    let whole = p.list_volumes(0, None).await.unwrap();
    assert_eq!((whole.items.len(), whole.next_token), (7, None));
    let whole = p.list_volumes(7, None).await.unwrap();
    assert_eq!(
        (whole.items.len(), whole.next_token),
        (7, None),
        "a full page that is the last has no token"
    );
    let (mut seen, mut token) = (Vec::new(), None::<String>);
    loop {
        let page = p.list_volumes(3, token.as_deref()).await.unwrap();
        assert!(page.items.len() == 3 || page.next_token.is_none());
        seen.extend(page.items.iter().map(|item| item.volume.to_string()));
        match page.next_token {
            Some(next) => token = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, names);
    let token = p.list_volumes(2, None).await.unwrap().next_token.unwrap();
    // What is deleted under a walk does not break it.
    p.delete_volume(&volume("vol-1"), None).await.unwrap();
    assert_eq!(
        p.list_volumes(1, Some(&token)).await.unwrap().items[0].volume,
        volume("vol-2")
    );
    let snapshots = p.list_snapshots(2, None).await.unwrap();
    assert_eq!(snapshots.items[1].source_volume, volume("vol-1"));
    for foreign in [
        "",
        "x",
        "00ff",
        &token[1..],
        snapshots.next_token.as_deref().unwrap(),
    ] {
        let error = argument(p.list_volumes(3, Some(foreign)).await.unwrap_err());
        assert!(matches!(error, Argument::Token), "{foreign}");
    }
}

async fn reads_and_writes(stage: Stage) {
    stage.blank("vol-1", MIB).await;
    let device = stage.opened("vol-1").await;
    assert_eq!(device.size(), MIB);
    assert!(device.read_at(0, 1 << 20).await.unwrap().iter().all(|b| *b == 0));
    for (offset, length) in [(MIB, 1), (MIB - 1, 2), (u64::MAX, 1), (u64::MAX - 3, 8)] {
        assert!(matches!(
            device.read_at(offset, length).await,
            Err(DeviceError::OutOfRange { .. })
        ));
        let data = Bytes::from(vec![1; length as usize]);
        assert!(matches!(
            device.write_at(offset, data, false).await,
            Err(DeviceError::OutOfRange { .. })
        ));
        let length = u64::from(length);
        assert!(matches!(
            device.trim(offset, length, false).await,
            Err(DeviceError::OutOfRange { .. })
        ));
        assert!(matches!(
            device.block_status(offset, length, 1).await,
            Err(DeviceError::OutOfRange { .. })
        ));
    }
    device
        .write_at(MIB - 3, Bytes::from_static(b"end"), true)
        .await
        .unwrap();
    assert_eq!(&device.read_at(MIB - 4, 4).await.unwrap()[..], b"\0end");
    device.flush().await.unwrap();
    // Two writers own half of each block each; no half is ever lost.
    let mut writers = Vec::new();
    for half in 0..2u8 {
        let device = Arc::clone(&device);
        writers.push(tokio::spawn(async move {
            for round in 0..6u8 {
                for block in 0..128u64 {
                    let data = Bytes::from(vec![half * 100 + round + 1; 2048]);
                    device
                        .write_at(block * 4096 + u64::from(half) * 2048, data, false)
                        .await
                        .unwrap();
                }
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    for block in 0..128u64 {
        let bytes = device.read_at(block * 4096, 4096).await.unwrap();
        assert!(
            bytes[..2048].iter().all(|b| *b == 6) && bytes[2048..].iter().all(|b| *b == 106),
            "{block}"
        );
    }
}

async fn zeros_and_extents(stage: Stage) {
    stage.blank("vol-1", 4 * MIB).await;
    let device = stage.opened("vol-1").await;
    let whole = device.block_status(0, 4 * MIB, 10).await.unwrap();
    assert_eq!(
        (whole.len(), whole[0].kind, whole[0].length),
        (1, ExtentKind::Hole, 4 * MIB)
    );
    device
        .write_at(0, Bytes::from(vec![7; 4 << 20]), false)
        .await
        .unwrap();
    // Trim: whole blocks only. Zero: every byte.
    device.trim(MIB + 100, 8192, false).await.unwrap();
    let bytes = device.read_at(MIB, 4 * 4096).await.unwrap();
    let zeros: Vec<usize> = (0..bytes.len()).filter(|n| bytes[*n] == 0).collect();
    assert_eq!((zeros.first(), zeros.len()), (Some(&4096), 4096));
    device
        .write_zeroes(2 * MIB + 100, 8192, ZeroMode::default())
        .await
        .unwrap();
    let bytes = device.read_at(2 * MIB, 4 * 4096).await.unwrap();
    let zeros: Vec<usize> = (0..bytes.len()).filter(|n| bytes[*n] == 0).collect();
    assert_eq!((zeros.first(), zeros.len()), (Some(&100), 8192));
    device.trim(3 * MIB, MIB, true).await.unwrap();
    let extents = device.block_status(0, 4 * MIB, 100).await.unwrap();
    assert_eq!(extents.iter().map(|extent| extent.length).sum::<u64>(), 4 * MIB);
    assert_eq!(extents.last().unwrap().kind, ExtentKind::Hole);
    assert!(extents.last().unwrap().length >= MIB);
    assert_eq!(device.block_status(0, 4 * MIB, 1).await.unwrap().len(), 1);
    // Zeros that keep their place: read as zeros, and nothing is given back.
    let allocated = || async {
        stage
            .provider
            .stat_volume(&volume("vol-1"), None)
            .await
            .unwrap()
            .allocated_bytes
    };
    let before = allocated().await;
    let kept = ZeroMode {
        no_hole: true,
        ..ZeroMode::default()
    };
    device.write_zeroes(0, MIB, kept).await.unwrap();
    assert!(device.read_at(0, 1 << 20).await.unwrap().iter().all(|b| *b == 0));
    assert!(allocated().await >= before);
    device
        .write_zeroes(
            0,
            MIB,
            ZeroMode {
                fua: true,
                ..ZeroMode::default()
            },
        )
        .await
        .unwrap();
    assert!(allocated().await < before);
}

/// What a `file` pool keeps is there after its keeper ended, and tokens and generations go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_pool_survives_reopening() {
    let stage = file();
    for name in ["vol-1", "vol-2", "vol-3"] {
        stage.blank(name, MIB).await;
    }
    let device = stage.opened("vol-1").await;
    device
        .write_at(0, Bytes::from_static(b"kept"), false)
        .await
        .unwrap();
    stage.put_away("vol-1", device).await;
    let view = stage
        .provider
        .create_snapshot(cut("snap-1", "vol-1"))
        .await
        .unwrap();
    let publication = stage
        .provider
        .publish_volume(publish(&volume("vol-2")))
        .await
        .unwrap();
    let token = stage
        .provider
        .list_volumes(1, None)
        .await
        .unwrap()
        .next_token
        .unwrap();
    let Stage { provider, directory } = stage;
    assert!(
        FilePool::open(file_config(directory.path())).is_err(),
        "one keeper at a time"
    );
    drop(provider);
    // What a crash leaves behind.
    let half = directory
        .path()
        .join("pool/tmp")
        .join(VolumeHandle::mint().to_string());
    std::fs::create_dir(&half).unwrap();
    std::fs::write(half.join("data"), b"half").unwrap();
    let pool = FilePool::open(file_config(directory.path())).unwrap();
    assert!(!half.exists());
    assert_eq!(
        pool.list_volumes(1, Some(&token)).await.unwrap().items[0].volume,
        volume("vol-2")
    );
    assert_eq!(
        pool.fetch_snapshot(&snapshot("snap-1"), None).await.unwrap(),
        view
    );
    assert_eq!(
        pool.publish_volume(publish(&volume("vol-2"))).await.unwrap(),
        publication
    );
    let again = pool.publish_volume(publish(&volume("vol-1"))).await.unwrap();
    assert_eq!(again.generation, Generation(2));
    let device = pool.open_volume(open(&again)).await.unwrap();
    assert_eq!(&device.read_at(0, 4).await.unwrap()[..], b"kept");
}

/// An unreadable record is neither absent nor a gap: its id is blocked and listings fail.
#[tokio::test]
async fn an_unreadable_record_is_not_absence() {
    let stage = file();
    let bad = stage.blank("vol-1", MIB).await;
    let worse = stage.blank("vol-2", MIB).await;
    stage.blank("vol-3", MIB).await;
    let Stage { provider, directory } = stage;
    drop(provider);
    let volumes = directory.path().join("pool/volumes");
    std::fs::write(volumes.join(bad.handle.to_string()).join("ownership.json"), b"{").unwrap();
    let pool = FilePool::open(file_config(directory.path())).unwrap();
    let id = volume("vol-1");
    assert!(matches!(
        pool.fetch_volume(&id, None).await,
        Err(ProviderError::Unreadable { .. })
    ));
    assert!(matches!(
        pool.delete_volume(&id, None).await,
        Err(ProviderError::Unreadable { .. })
    ));
    let create = pool.create_volume(CreateVolume::blank(id.clone(), MIB)).await;
    assert!(matches!(create, Err(ProviderError::Unreadable { .. })));
    assert!(matches!(
        pool.list_volumes(0, None).await,
        Err(ProviderError::ListUnreadable { .. })
    ));
    assert!(
        pool.fetch_volume(&volume("vol-3"), None).await.is_ok(),
        "the others are served"
    );
    drop(pool);
    std::fs::remove_file(volumes.join(worse.handle.to_string()).join("record.json")).unwrap();
    let pool = FilePool::open(file_config(directory.path())).unwrap();
    assert!(matches!(
        pool.list_volumes(0, None).await,
        Err(ProviderError::ListUnreadable { .. })
    ));
    assert!(pool.fetch_volume(&volume("vol-3"), None).await.is_ok());
}
