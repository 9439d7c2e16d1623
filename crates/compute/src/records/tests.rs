//! Golden bytes: every record of version 1 as it is stored, with the keys under which it is found.
//!
//! A row that fails here means that stored records of running clouds would not be read: raise the record's version and
//! add a migration instead of changing the row.

use super::{
    Attachment, CapacityHold, Image, Instance, InstanceBoot, KeyPair, Launch, NodeUsage, Snapshot, Volume,
};
use state::Record;

/// Reads the bytes, checks that writing gives them again, and answers where the record is stored and found.
fn golden<T: Record>(json: &str) -> Vec<String> {
    let record: T = serde_json::from_str(json).expect(T::TABLE);
    assert_eq!(serde_json::to_string(&record).expect(T::TABLE), json);
    assert_eq!(T::VERSION, 1, "{}: add a row for the new version", T::TABLE);
    record.validate().expect(T::TABLE);
    let shown = |kind: &str, index: state::Index| format!("{kind} {} {}", index.name, index.value.join(" "));
    let mut keys = vec![format!("{}/{}", T::TABLE, record.key())];
    keys.extend(record.indexes().into_iter().map(|index| shown("i", index)));
    keys.extend(record.uniques().into_iter().map(|index| shown("u", index)));
    keys
}

/// An instance in a phase; the rest is the same.
fn instance(phase: &str) -> String {
    format!(
        r#"{{"account":"000000000002","id":"i-00000000000000001","reservation":"r-00000000000000001","launch_index":0,"client_token":"once","lifecycle":{{"desired":"run","phase":"{phase}","phase_since":"2026-11-30T13:10:00Z","ever_ran":true,"stop_force":false,"reason":"Client.UserInitiatedShutdown","transition_reason":"User initiated (2026-11-30 13:10:00 GMT)"}},"launched_at":"2026-11-30T13:10:00Z","instance_type":"t3.micro","image":{{"image":"ami-00000000000000001","architecture":"x86_64","boot_mode":"legacy-bios","root_device_name":"/dev/xvda"}},"key_name":"web","zone":"eu-central-1a","node":"node-00000000000000001","core_count":1,"threads_per_core":2,"credits":"unlimited","metadata":{{"endpoint_enabled":true,"tokens_required":true,"hop_limit":1,"tags_enabled":false}},"protection":{{"termination":false,"stop":false}},"shutdown_behaviour":"stop","auto_recovery":true,"monitoring":false,"ebs_optimized":false,"slots":{{"eni-00000000000000001":1,"vol-00000000000000001":0}},"start_generation":1,"reboot_generation":0,"losses":["2026-11-30T13:09:00Z"]}}"#
    )
}

#[test]
fn instances_of_version_1() {
    let key = "instances/000000000002/i-00000000000000001";
    assert_eq!(golden::<Instance>(&instance("running")), [key]);
    assert_eq!(golden::<Instance>(&instance("stopped")), [key]);
    assert_eq!(
        golden::<Instance>(&instance("placed")),
        [key, "i attention busy "]
    );
    assert_eq!(
        golden::<Instance>(&instance("shutting-down")),
        [key, "i attention busy "]
    );
    assert_eq!(
        golden::<Instance>(&instance("terminated")),
        [key, "i attention terminated 2026-11-30T13:10:00Z"]
    );
    assert_eq!(
        golden::<InstanceBoot>(
            r#"{"account":"000000000002","instance":"i-00000000000000001","user_data":"QUFB","public_key":"ssh-ed25519 AAAA web"}"#
        ),
        ["instance-boots/000000000002/i-00000000000000001"]
    );
    assert_eq!(
        golden::<Launch>(
            r#"{"account":"000000000002","reservation":"r-00000000000000001","client_token":null,"instances":[["i-00000000000000001","node-00000000000000001"]],"made":0,"launched_at":"2026-11-30T13:10:00Z","instance_type":"t3.micro","image":{"image":"ami-00000000000000001","architecture":"x86_64","boot_mode":null,"root_device_name":"/dev/xvda"},"key":["web","ssh-ed25519 AAAA web"],"user_data":null,"zone":"eu-central-1a","volumes":[{"device_name":"/dev/xvda","size_gib":8,"snapshot":"snap-00000000000000001","volume_type":"gp3","delete_on_termination":true,"iops":3000,"throughput":125}],"interfaces":[{"device_index":0,"subnet":"subnet-00000000000000001","groups":["sg-00000000000000001"],"public":true,"address":null,"description":"","delete_on_termination":true}],"tags":{"instance":{"Name":"web"}},"core_count":1,"threads_per_core":2,"credits":"standard","metadata":{"endpoint_enabled":true,"tokens_required":true,"hop_limit":1,"tags_enabled":false},"protection":{"termination":true,"stop":false},"shutdown_behaviour":"terminate","auto_recovery":true,"monitoring":false,"ebs_optimized":false}"#
        ),
        ["launches/000000000002/r-00000000000000001"]
    );
}

#[test]
fn storage_of_version_1() {
    assert_eq!(
        golden::<Volume>(
            r#"{"account":"000000000002","id":"vol-00000000000000001","size_gib":8,"volume_type":"gp3","iops":3000,"throughput":125,"snapshot":"snap-00000000000000001","zone":"eu-central-1a","node":"node-00000000000000001","state":"creating","created_at":"2026-11-30T13:10:00Z"}"#
        ),
        ["volumes/000000000002/vol-00000000000000001", "i attention busy "]
    );
    assert_eq!(
        golden::<Attachment>(
            r#"{"account":"000000000002","instance":"i-00000000000000001","volume":"vol-00000000000000001","device_name":"/dev/xvda","delete_on_termination":true,"attached_at":"2026-11-30T13:10:00Z"}"#
        ),
        [
            "volume-attachments/000000000002/i-00000000000000001:vol-00000000000000001",
            "i instance i-00000000000000001",
            "u volume vol-00000000000000001",
            "u device i-00000000000000001 /dev/xvda"
        ]
    );
    assert_eq!(
        golden::<Snapshot>(
            r#"{"account":"000000000000","id":"snap-00000000000000001","size_bytes":1073741824,"handle":"00000000000000000000000000000000","node":"node-00000000000000001","description":"","created_at":"2026-11-30T13:10:00Z"}"#
        ),
        [
            "snapshots/000000000000/snap-00000000000000001",
            "u id snap-00000000000000001"
        ]
    );
    let image = |state: &str| {
        format!(
            r#"{{"account":"000000000000","id":"ami-00000000000000001","name":"tiny","description":"","architecture":"x86_64","boot_mode":"uefi-preferred","root_device_name":"/dev/xvda","devices":[{{"device_name":"/dev/xvda","snapshot":"snap-00000000000000001","size_gib":1,"volume_type":"gp3","delete_on_termination":true}}],"public":true,"state":"{state}","created_at":"2026-11-30T13:10:00Z","ena_support":true}}"#
        )
    };
    let key = "images/000000000000/ami-00000000000000001";
    let id = "u id ami-00000000000000001";
    assert_eq!(
        golden::<Image>(&image("available")),
        [key, id, "u name 000000000000 tiny"]
    );
    assert_eq!(golden::<Image>(&image("deregistered")), [key, id]);
}

#[test]
fn keys_and_capacity_of_version_1() {
    assert_eq!(
        golden::<KeyPair>(
            r#"{"account":"000000000002","name":"web","id":"key-00000000000000001","key_type":"ed25519","fingerprint":"abc=","public_key":"ssh-ed25519 AAAA web","created_at":"2026-11-30T13:10:00Z"}"#
        ),
        [
            "key-pairs/000000000002/key-00000000000000001",
            "u name 000000000002 web"
        ]
    );
    assert_eq!(
        golden::<CapacityHold>(
            r#"{"account":"000000000002","holder":"i-00000000000000001","node":"node-00000000000000001","room":{"millithreads":500,"memory_mib":1088}}"#
        ),
        ["capacity-holds/node-00000000000000001/i-00000000000000001"]
    );
    assert_eq!(
        golden::<NodeUsage>(
            r#"{"node":"node-00000000000000001","held":{"millithreads":500,"memory_mib":1088},"holders":1}"#
        ),
        ["node-usages/node-00000000000000001/usage"]
    );
}
