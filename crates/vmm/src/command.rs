//! The whole command line of a guest, as a pure function of plan, accelerator and descriptor numbers; a golden
//! test holds it. What is not obvious:
//!
//! - `-S`: the CPUs stand still until the caller has recorded who the process is and continues it.
//! - `-action shutdown=pause`: a power-off is a state that can be read later, not an exit that can be missed.
//!   `panic=none`: a panic is an event and the guest goes on to its own crash handling.
//! - Memory is a shared memfd, so that a later vhost-user device can map it.
//! - `-sandbox`: QEMU may not execute anything or raise its privileges.
//! - The serial port is a socket whose traffic QEMU also appends to a log; without a client the bytes only go to
//!   the log, and a full disk drops them.
//! - Only what the plan names exists: no default devices, no user configuration, no display.

use std::ffi::OsString;
use std::path::Path;

use serde_json::json;

use crate::accelerator::Accelerator;
use crate::devices::{disk_parts, nic_parts, root_port};
use crate::limits::TCG_BUFFER_MIB;
use crate::plan::{Firmware, GuestPlan, Machine, PciSlot};

/// The arguments after the program's name. `descriptors[i]` is the number that the descriptor with index `i` has
/// in the new process.
#[must_use]
pub fn arguments(plan: &GuestPlan, accelerator: Accelerator, descriptors: &[i32]) -> Vec<OsString> {
    let mut line = Line(Vec::with_capacity(96));
    machine(&mut line, plan, accelerator);
    identity(&mut line, plan);
    monitors_and_console(&mut line, plan);
    for slot in (0..plan.pci_slots).map(PciSlot) {
        line.option("-device", root_port(slot).to_string());
    }
    for disk in &plan.disks {
        let parts = disk_parts(disk, plan.cpus.vcpus());
        line.option("-object", parts.iothread.to_string());
        line.option("-blockdev", parts.block_node.to_string());
        line.option("-device", parts.device.to_string());
    }
    for nic in &plan.nics {
        let parts = nic_parts(nic, &descriptors[nic.tap_fd_index].to_string());
        line.option("-netdev", parts.netdev.to_string());
        line.option("-device", parts.device.to_string());
    }
    line.option(
        "-object",
        json!({"qom-type": "rng-random", "id": "entropy", "filename": "/dev/urandom"}).to_string(),
    );
    line.option(
        "-device",
        json!({"driver": "virtio-rng-pci", "rng": "entropy", "bus": "pcie.0"}).to_string(),
    );
    line.option(
        "-device",
        json!({"driver": "pvpanic-pci", "bus": "pcie.0"}).to_string(),
    );
    line.0
}

struct Line(Vec<OsString>);

impl Line {
    fn flag(&mut self, name: &str) {
        self.0.push(name.into());
    }

    fn option(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.push(name.into());
        self.0.push(value.into());
    }
}

/// In QEMU's `key=value,…` form a comma in a value is doubled.
fn escaped(value: &str) -> String {
    value.replace(',', ",,")
}

fn escaped_path(path: &Path) -> String {
    escaped(&path.to_string_lossy())
}

fn machine(line: &mut Line, plan: &GuestPlan, accelerator: Accelerator) {
    line.flag("-no-user-config");
    line.flag("-nodefaults");
    line.option("-display", "none");
    line.flag("-S");
    line.option("-action", "reboot=reset,shutdown=pause,panic=none");
    line.option(
        "-sandbox",
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    );
    let Machine::Q35 = plan.machine;
    let mut machine = String::from("q35,memory-backend=memory,vmport=off,hpet=off");
    if let Firmware::Uefi { code, vars } = &plan.firmware {
        for (node, path, read_only) in [("firmware-code", code, true), ("firmware-vars", vars, false)] {
            let file = json!({"driver": "file", "filename": path});
            let image = json!({"driver": "raw", "node-name": node, "read-only": read_only, "file": file});
            line.option("-blockdev", image.to_string());
        }
        machine.push_str(",pflash0=firmware-code,pflash1=firmware-vars");
    }
    line.option("-machine", machine);
    match accelerator {
        Accelerator::Kvm => {
            line.option("-accel", "kvm");
            line.option("-cpu", "host");
        }
        Accelerator::Tcg => {
            line.option("-accel", format!("tcg,thread=multi,tb-size={TCG_BUFFER_MIB}"));
            // Five-level paging makes every emulated page walk longer for nothing.
            line.option("-cpu", "max,la57=off");
        }
    }
    let cpus = plan.cpus;
    let (total, sockets, cores, threads) = (cpus.vcpus(), cpus.sockets, cpus.cores, cpus.threads);
    line.option(
        "-smp",
        format!("cpus={total},sockets={sockets},cores={cores},threads={threads}"),
    );
    line.option("-m", format!("size={}M", plan.memory_mib));
    let bytes = u64::from(plan.memory_mib) << 20;
    let memory = json!({"qom-type": "memory-backend-memfd", "id": "memory", "size": bytes, "share": true});
    line.option("-object", memory.to_string());
    line.option("-boot", "strict=on,menu=off");
}

fn identity(line: &mut Line, plan: &GuestPlan) {
    let smbios = &plan.smbios;
    let (vendor, product, serial) = (
        escaped(&smbios.vendor),
        escaped(&smbios.product),
        escaped(&smbios.serial),
    );
    line.option("-name", format!("guest={}", escaped(&plan.id)));
    line.option("-uuid", plan.uuid.as_str());
    line.option("-smbios", format!("type=0,vendor={vendor}"));
    line.option(
        "-smbios",
        format!("type=1,manufacturer={vendor},product={product},serial={serial}"),
    );
    let board = escaped(&smbios.board_asset_tag);
    line.option("-smbios", format!("type=2,manufacturer={vendor},asset={board}"));
    let chassis = escaped(&smbios.chassis_asset_tag);
    line.option("-smbios", format!("type=3,manufacturer={vendor},asset={chassis}"));
}

fn monitors_and_console(line: &mut Line, plan: &GuestPlan) {
    let files = &plan.files;
    for (id, socket) in [
        ("control", &files.qmp_socket),
        ("metrics", &files.qmp_metrics_socket),
    ] {
        let path = escaped_path(socket);
        line.option(
            "-chardev",
            format!("socket,id={id},path={path},server=on,wait=off"),
        );
        line.option("-mon", format!("chardev={id},mode=control"));
    }
    let (socket, log) = (
        escaped_path(&files.console.socket),
        escaped_path(&files.console.log),
    );
    let console = format!("socket,id=console,path={socket},server=on,wait=off,logfile={log},logappend=on");
    line.option("-chardev", console);
    line.option("-serial", "chardev:console");
}

#[cfg(test)]
mod tests;
