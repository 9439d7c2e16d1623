//! The export process as this crate's tests start it: `block-serve <configuration>`. The product's is `spx volume serve`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(config) => block::export::run(Path::new(&config)),
        None => {
            eprintln!("usage: block-serve <configuration>");
            ExitCode::from(block::export::exit_code::CONFIG)
        }
    }
}
