//! The shared libraries of a program, so that it can be copied into an image with everything it needs.

use std::path::{Path, PathBuf};

use crate::error::ImageError;
use crate::limits::TOOL_MAX;
use crate::tool::{LDD, Run};

/// Paths of the libraries and of the loader that `program` needs here; empty for a static one.
///
/// # Errors
/// A library is missing, or `ldd` failed.
pub async fn needed(program: &Path, log: &Path) -> Result<Vec<PathBuf>, ImageError> {
    let run = Run::new(LDD, "listing a program's libraries", log)?.with(|command| {
        command.arg(program);
    });
    let text = match run.output(TOOL_MAX).await {
        Ok(text) => text,
        Err(ImageError::Failed { output, .. }) if output.contains("not a dynamic executable") => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    parse(program, &text)
}

/// Lines are `name => path (address)`, `path (address)`, or `linux-vdso.so.1 (address)`, which is no file.
fn parse(program: &Path, text: &str) -> Result<Vec<PathBuf>, ImageError> {
    let mut paths = Vec::new();
    for line in text.lines().map(str::trim) {
        let (name, rest) = line.split_once(" => ").unwrap_or(("", line));
        if rest.starts_with("not found") {
            return Err(ImageError::NoLibrary {
                program: program.to_owned(),
                library: name.to_owned(),
            });
        }
        let path = rest.split(" (").next().unwrap_or_default();
        if path.starts_with('/') {
            paths.push(PathBuf::from(path));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::parse;

    #[test]
    fn lines_of_ldd() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tlibz.so.1 => /lib/libz.so.1 (0x2)\n\t/lib64/ld.so.2 (0x3)\n";
        let paths = parse(Path::new("/p"), text).unwrap();
        assert_eq!(
            paths,
            [PathBuf::from("/lib/libz.so.1"), PathBuf::from("/lib64/ld.so.2")]
        );
        assert_eq!(
            parse(Path::new("/p"), "\tstatically linked\n").unwrap(),
            Vec::<PathBuf>::new()
        );
        let error = parse(Path::new("/p"), "\tlibx.so.1 => not found\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "program \"/p\" needs libx.so.1, which is not there"
        );
    }
}
