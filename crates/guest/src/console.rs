//! Markers on the serial console. Tools wait for these lines, so they are a contract:
//! `spinifex-guest: ready`, `SPX-READY <instance id>`, `spinifex-guest: user data finished (<status>)`.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Prints one line on the console. A console that cannot be written to is no reason to stop.
pub fn say(text: &str) {
    print_line(&format!("spinifex-guest: {text}"));
}

/// Prints the line that health checks wait for.
pub fn say_ready(instance_id: &str) {
    say("ready");
    print_line(&format!("SPX-READY {instance_id}"));
}

fn print_line(line: &str) {
    // One write, so that the kernel's own lines do not cut it in two.
    if let Ok(mut console) = OpenOptions::new().write(true).open("/dev/console") {
        let _console_gone = console.write_all(format!("{line}\n").as_bytes());
    }
}
