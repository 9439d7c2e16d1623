//! A real DHCP client against the server: busybox udhcpc in the guest's namespace.

use vnet::DhcpOptions;

use crate::lab::{Lab, Namespace, group, network, port};

/// Runs the client once; what it learnt as `name=value` lines, none if nobody answered.
fn lease(lab: &Lab, guest: &Namespace) -> Option<String> {
    let script = lab.run_dir.path().join("udhcpc.sh");
    let out = lab.run_dir.path().join(format!("lease-{}", guest.name));
    let body = format!(
        "#!/bin/sh\n[ \"$1\" = bound ] && env > {}\nexit 0\n",
        out.display()
    );
    std::fs::write(&script, body).expect("the script is written");
    guest.sh(&format!("chmod +x {}; ip link set eth0 up", script.display()));
    let command = format!(
        "busybox udhcpc -i eth0 -f -q -n -t 2 -T 1 -s {}",
        script.display()
    );
    guest
        .succeeds(&command)
        .then(|| std::fs::read_to_string(out).expect("the client was bound"))
}

#[test]
fn a_client_learns_its_address_even_if_groups_close_everything() {
    let lab = Lab::new();
    let mut program = network("net");
    program.groups = vec![group("closed", vec![], vec![])];
    program.ports = vec![port("a", 1, 10, &["closed"]), port("b", 2, 20, &[])];
    program.ports[0].dhcp = DhcpOptions {
        hostname: Some("ip-10-0-1-10".to_owned()),
        domain: Some("eu-central-1.compute.internal".to_owned()),
        ..DhcpOptions::default()
    };
    lab.apply(&program);
    let (a, b) = (lab.bare_guest(&program, "a"), lab.bare_guest(&program, "b"));
    let lines = lease(&lab, &a).expect("a is answered");
    for line in [
        "ip=10.0.1.10",
        "subnet=255.255.255.0",
        "router=10.0.1.1",
        "serverid=10.0.1.1",
        "mtu=1450",
        "lease=3600",
        "hostname=ip-10-0-1-10",
        "domain=eu-central-1.compute.internal",
    ] {
        assert!(lines.lines().any(|one| one == line), "{line} in {lines}");
    }
    assert!(!lines.contains("\ndns="), "no resolver is handed out: {lines}");
    let lines = lease(&lab, &b).expect("b is answered");
    assert!(lines.lines().any(|one| one == "ip=10.0.2.20"), "{lines}");
}

#[test]
fn a_client_with_another_ethernet_address_is_not_answered() {
    let lab = Lab::new();
    let mut program = network("net");
    program.ports = vec![port("a", 1, 10, &[])];
    lab.apply(&program);
    let a = lab.bare_guest(&program, "a");
    a.sh("ip link set eth0 address 02:00:00:00:99:99");
    assert!(lease(&lab, &a).is_none());
    a.sh("ip link set eth0 down; ip link set eth0 address 02:00:00:00:01:0a");
    assert!(lease(&lab, &a).is_some());
}
