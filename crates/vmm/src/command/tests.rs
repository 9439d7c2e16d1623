//! The golden command line: a change of the device plan must be made on purpose.

use std::path::Path;

use super::arguments;
use crate::accelerator::Accelerator;
use crate::plan::{
    CpuTopology, Disk, Firmware, GuestFiles, GuestPlan, Machine, Nic, PciSlot, PlanError, Smbios,
};

fn plan() -> GuestPlan {
    GuestPlan {
        id: "i-1".into(),
        uuid: "ec2f1a00-0000-4000-8000-000000000001".into(),
        machine: Machine::Q35,
        cpus: CpuTopology {
            sockets: 1,
            cores: 1,
            threads: 2,
        },
        memory_mib: 512,
        firmware: Firmware::Uefi {
            code: "/fw/code.fd".into(),
            vars: "/g/vars.fd".into(),
        },
        smbios: Smbios {
            vendor: "Vendor, Inc".into(),
            product: "t3.nano".into(),
            serial: "ec2f1a00-0000-4000-8000-000000000001".into(),
            board_asset_tag: "i-1".into(),
            chassis_asset_tag: "Vendor".into(),
        },
        disks: vec![Disk {
            id: "vol-1".into(),
            nbd_socket: "/g/vol-1.sock".into(),
            nbd_export: "vol-1".into(),
            serial: "vol0123456789abcdef0".into(),
            slot: PciSlot(0),
            boot_index: Some(1),
            read_only: false,
        }],
        nics: vec![Nic {
            id: "eni-1".into(),
            tap_fd_index: 0,
            mac: "02:00:00:00:00:01".into(),
            slot: PciSlot(9),
            mtu: Some(1500),
        }],
        pci_slots: 10,
        files: GuestFiles::in_dir(Path::new("/g")),
    }
}

#[test]
fn the_command_line_is_as_agreed() {
    let arguments = arguments(&plan(), Accelerator::Tcg, &[17]);
    let mut text = String::new();
    for argument in &arguments {
        let argument = argument.to_str().unwrap();
        text.push_str(if argument.starts_with('-') { "\n" } else { " " });
        text.push_str(argument);
    }
    text.push('\n');
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/command/golden.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(golden).unwrap());
}

#[test]
fn kvm_changes_only_accelerator_and_processor() {
    let tcg = arguments(&plan(), Accelerator::Tcg, &[17]);
    let kvm = arguments(&plan(), Accelerator::Kvm, &[17]);
    let differing: Vec<_> = tcg
        .iter()
        .zip(&kvm)
        .filter(|(a, b)| a != b)
        .map(|(_, kvm)| kvm.clone())
        .collect();
    assert_eq!(differing, ["kvm", "host"]);
}

#[test]
fn bad_plans_are_refused() {
    let check = |change: &dyn Fn(&mut GuestPlan)| {
        let mut plan = plan();
        change(&mut plan);
        plan.validate(1).unwrap_err()
    };
    assert_eq!(plan().validate(1), Ok(()));
    assert!(matches!(
        plan().validate(0),
        Err(PlanError::NoSuchDescriptor {
            index: 0,
            given: 0,
            ..
        })
    ));
    assert!(matches!(
        check(&|p| p.memory_mib = 0),
        PlanError::NoMachine { .. }
    ));
    assert!(matches!(
        check(&|p| p.cpus.cores = 0),
        PlanError::NoMachine { .. }
    ));
    assert!(matches!(
        check(&|p| p.pci_slots = 33),
        PlanError::TooManySlots { .. }
    ));
    assert!(matches!(
        check(&|p| p.pci_slots = 9),
        PlanError::SlotOutOfRange {
            slot: 9,
            slots: 9,
            ..
        }
    ));
    assert!(matches!(
        check(&|p| p.nics[0].slot = PciSlot(0)),
        PlanError::SlotTaken { slot: 0, .. }
    ));
    assert!(matches!(
        check(&|p| p.nics[0].id = "vol-1".into()),
        PlanError::BadDeviceId { .. }
    ));
    assert!(matches!(
        check(&|p| p.nics[0].id = "a,b".into()),
        PlanError::BadDeviceId { .. }
    ));
    assert!(matches!(
        check(&|p| p.disks[0].serial.push('x')),
        PlanError::SerialTooLong { .. }
    ));
    let long = Path::new("/").join("x".repeat(107));
    assert!(matches!(
        check(&|p| p.files.qmp_socket = long.clone()),
        PlanError::SocketPathTooLong { .. }
    ));
}
