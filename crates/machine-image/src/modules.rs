//! Which kernel modules an initramfs needs, in the order in which they must be loaded. A package that was only
//! unpacked has no `modules.dep`, so dependencies are read from the modules themselves: each carries
//! `depends=a,b` in its `.modinfo` section, as zero-terminated text.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{ImageError, file};
use crate::kernel::Kernel;
use crate::limits::{MODULE_BYTES_MAX, MODULES_MAX};

/// A module to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name, with `_` throughout.
    pub name: String,
    /// Its file's contents.
    pub contents: Vec<u8>,
}

/// Finds `wanted` and all that they depend on, dependencies first. What is built into the kernel is left out.
///
/// # Errors
/// One is neither a file nor built in.
pub fn ordered(kernel: &Kernel, wanted: &[&str]) -> Result<Vec<Module>, ImageError> {
    let mut files = BTreeMap::new();
    index(&kernel.modules, &mut files)?;
    let builtin_path = kernel.modules.join("modules.builtin");
    let builtin = fs::read_to_string(&builtin_path).map_err(file("reading", &builtin_path))?;
    let builtin: Vec<String> = builtin
        .lines()
        .filter_map(|line| name_of(Path::new(line)))
        .collect();

    let mut ordered = Vec::new();
    for name in wanted {
        add(kernel, &files, &builtin, &name.replace('-', "_"), &mut ordered, 0)?;
    }
    Ok(ordered)
}

fn add(
    kernel: &Kernel,
    files: &BTreeMap<String, PathBuf>,
    builtin: &[String],
    name: &str,
    ordered: &mut Vec<Module>,
    depth: usize,
) -> Result<(), ImageError> {
    if ordered.iter().any(|module| module.name == name) || builtin.iter().any(|builtin| builtin == name) {
        return Ok(());
    }
    let missing = || ImageError::NoModule {
        release: kernel.release.clone(),
        module: name.to_owned(),
    };
    let path = files.get(name).ok_or_else(missing)?;
    let length = fs::metadata(path).map_err(file("reading", path))?.len();
    if length > MODULE_BYTES_MAX || depth > MODULES_MAX {
        return Err(ImageError::TooLarge {
            what: "a kernel module",
            bytes: length,
            bytes_max: MODULE_BYTES_MAX,
        });
    }
    let contents = fs::read(path).map_err(file("reading", path))?;
    for dependency in dependencies(&contents) {
        add(kernel, files, builtin, &dependency, ordered, depth + 1)?;
    }
    ordered.push(Module {
        name: name.to_owned(),
        contents,
    });
    Ok(())
}

fn index(dir: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<(), ImageError> {
    for entry in fs::read_dir(dir).map_err(file("listing", dir))? {
        let path = entry.map_err(file("listing", dir))?.path();
        // Links (`build`, `source`) lead out of the package.
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            index(&path, files)?;
        } else if let Some(name) = name_of(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// `…/virtio-rng.ko` is `virtio_rng`. Compressed modules are not taken: our loader does not unpack.
fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(".ko")?;
    Some(name.replace('-', "_"))
}

fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let value = &module[at + KEY.len()..];
    let value = value.split(|&byte| byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value).into_owned();
    names
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::ordered;
    use crate::error::ImageError;
    use crate::kernel::Kernel;

    #[test]
    fn dependencies_come_first_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let module = |name: &str, depends: &str| {
            let text = format!("\x7fELF\0license=GPL\0depends={depends}\0name={name}\0");
            std::fs::write(dir.path().join(format!("{name}.ko")), text).unwrap();
        };
        module("virtio", "");
        module("virtio_ring", "virtio");
        module("virtio-net", "virtio_ring,virtio,fail-over");
        module("fail-over", "");
        std::fs::write(dir.path().join("modules.builtin"), "kernel/fs/ext4/ext4.ko\n").unwrap();
        let kernel = Kernel {
            release: "6".into(),
            image: dir.path().join("vmlinuz"),
            modules: dir.path().to_owned(),
        };
        let modules = ordered(&kernel, &["virtio_net", "ext4", "virtio"]).unwrap();
        let names: Vec<_> = modules.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["virtio", "virtio_ring", "fail_over", "virtio_net"]);
        let error = ordered(&kernel, &["absent"]).unwrap_err();
        assert!(matches!(error, ImageError::NoModule { .. }), "{error}");
    }
}
