//! Builds an image from the command line, for trying things out: `build tiny OUT CACHE GUEST`,
//! `debian12 OUT WORK` or `import SOURCE OUT bios|uefi`. The product's own command is `spx image`.

use std::env;
use std::process::ExitCode;
use std::time::Instant;

use machine_image::{
    BootMode, DebianRequest, ImageError, ImportRequest, Progress, TinyRequest, build_debian12, build_tiny,
    import,
};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let started = Instant::now();
    let watcher = |progress| match progress {
        Progress::Step { number, of, what } => eprintln!("{:>7.1?} {number}/{of} {what}", started.elapsed()),
        Progress::Done { done, total } => eprint!("\r{done}/{total} "),
    };
    let result = match words.as_slice() {
        ["tiny", out, cache, guest] => {
            let request = TinyRequest {
                out: out.into(),
                cache: cache.into(),
                guest: guest.into(),
                extra_command_line: env::var("EXTRA").unwrap_or_default(),
            };
            build_tiny(&request, &watcher).await
        }
        ["debian12", out, work] => {
            build_debian12(
                &DebianRequest {
                    out: out.into(),
                    work: work.into(),
                    mirror: None,
                },
                &watcher,
            )
            .await
        }
        ["import", source, out, mode] => {
            let boot_mode = if *mode == "uefi" {
                BootMode::Uefi
            } else {
                BootMode::Bios
            };
            import(
                &ImportRequest {
                    source: source.into(),
                    out: out.into(),
                    boot_mode,
                },
                &watcher,
            )
            .await
        }
        _ => {
            eprintln!("usage: build tiny OUT CACHE GUEST | debian12 OUT WORK | import SOURCE OUT bios|uefi");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(built) => {
            eprintln!("{:>7.1?} {built:?}", started.elapsed());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn chain(error: &ImageError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
