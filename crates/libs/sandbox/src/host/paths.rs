//! Validation of the paths that are opened to a sandbox, and the system's own paths.

use std::path::{Path, PathBuf};

use crate::SandboxError;

/// Path of the machine that the program sees under the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exposure {
    /// Absolute path without links.
    pub(crate) path: PathBuf,
    pub(crate) is_directory: bool,
    pub(crate) writable: bool,
}

/// Programs and libraries.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];
/// Configuration that programs need, without information about users.
const CONFIGURATION: [&str; 20] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
];
/// Paths that are never opened, nor any parent of them.
const FORBIDDEN: [&str; 8] = ["/", "/proc", "/sys", "/dev", "/run", "/boot", "/etc", "/var/run"];

/// Returns the system directories that exist on this machine.
pub(crate) fn system_directories() -> impl Iterator<Item = &'static Path> {
    SYSTEM.into_iter().map(Path::new).filter(|path| path.symlink_metadata().is_ok())
}

/// Returns the configuration files that exist on this machine; Python has a directory per version.
pub(crate) fn configuration() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        CONFIGURATION.into_iter().map(PathBuf::from).filter(|path| path.metadata().is_ok()).collect();
    for entry in std::fs::read_dir("/etc").into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("python3")) {
            found.push(entry.path());
        }
    }
    found
}

/// Returns kernel files with information about the machine, for programs without their own `/proc`.
pub(crate) fn harmless_kernel_files() -> impl Iterator<Item = PathBuf> {
    [
        "/proc/cpuinfo",
        "/proc/filesystems",
        "/proc/meminfo",
        "/proc/version",
        "/proc/sys/kernel/ngroups_max",
        "/proc/sys/kernel/osrelease",
        "/proc/sys/kernel/pid_max",
        "/proc/sys/vm/overcommit_memory",
        "/sys/devices/system/cpu/online",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ]
    .into_iter()
    .map(PathBuf::from)
    .filter(|path| path.metadata().is_ok())
}

/// Resolves and validates the paths of a run. A duplicate path is writable if one of its entries is; paths precede
/// their subpaths.
///
/// # Errors
/// Returns an error if a path does not exist, would open the machine itself, or contains one of `guarded`, the daemon's
/// own directories.
pub(crate) fn resolve(
    readable: &[PathBuf],
    writable: &[PathBuf],
    guarded: &[PathBuf],
) -> Result<Vec<Exposure>, SandboxError> {
    let mut exposures: Vec<Exposure> = Vec::new();
    let wishes = readable.iter().map(|path| (path, false)).chain(writable.iter().map(|path| (path, true)));
    for (wish, writable) in wishes {
        let refused = |reason| SandboxError::PathRefused { path: wish.clone(), reason };
        if !wish.is_absolute() {
            return Err(refused("it is not absolute"));
        }
        let fault = |source| SandboxError::Path { path: wish.clone(), source };
        let path = wish.canonicalize().map_err(fault)?;
        let is_directory = path.metadata().map_err(fault)?.is_dir();
        if writable && !is_directory {
            return Err(refused("only directories can be writable"));
        }
        if FORBIDDEN.iter().any(|never| Path::new(never).starts_with(&path)) || is_kernel_or_secret(&path) {
            return Err(refused("it belongs to the system"));
        }
        if writable && SYSTEM.iter().any(|system| path.starts_with(system) || Path::new(system).starts_with(&path)) {
            return Err(refused("system directories cannot be writable"));
        }
        if guarded.iter().any(|guarded| guarded.starts_with(&path)) {
            return Err(refused("it contains the daemon's own data"));
        }
        match exposures.iter_mut().find(|known| known.path == path) {
            Some(known) => known.writable |= writable,
            None => exposures.push(Exposure { path, is_directory, writable }),
        }
    }
    exposures.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(exposures)
}

/// Whether a path is one of the daemon's own directories, or contains or is inside one. The daemon itself opens parts
/// of them; no other caller can.
pub(crate) fn is_own(path: &Path, guarded: &[PathBuf]) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    guarded.iter().any(|guarded| guarded.starts_with(&path) || path.starts_with(guarded))
}

/// Whether a path is on a kernel file system, or in the configuration that contains secrets.
fn is_kernel_or_secret(path: &Path) -> bool {
    ["/proc", "/sys", "/dev", "/boot", "/etc"].iter().any(|root| path.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(readable: &[&str], writable: &[&str], guarded: &[&Path]) -> String {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let guarded: Vec<PathBuf> = guarded.iter().map(|path| path.to_path_buf()).collect();
        resolve(&paths(readable), &paths(writable), &guarded).unwrap_err().to_string()
    }

    #[test]
    fn system_paths_are_refused() {
        for path in ["/", "/proc", "/proc/self", "/sys", "/dev", "/etc", "/etc/ssl", "/run", "/usr/../", "/var/run"] {
            assert!(refusal(&[path], &[], &[]).contains("cannot be shared"), "{path}");
        }
        for path in ["/usr", "/usr/lib", "/bin"] {
            assert!(refusal(&[], &[path], &[]).contains("cannot be shared"), "{path}");
        }
    }

    #[test]
    fn daemon_directories_are_refused_by_parent_and_link() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().canonicalize().unwrap().join("data");
        let workspace = data.join("agents/one");
        std::fs::create_dir_all(&workspace).unwrap();
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&data, &link).unwrap();
        for path in [&data, root.path(), &link] {
            let text = refusal(&[path.to_str().unwrap()], &[], &[&data]);
            assert!(text.contains("the daemon's own data"), "{text}");
        }
        let named = [(&data, true), (&workspace, true), (&link, true), (&root.path().join("gone"), false)];
        for (path, expected) in named {
            assert_eq!(is_own(path, std::slice::from_ref(&data)), expected, "{}", path.display());
        }
        let wish = std::slice::from_ref(&workspace);
        let exposures = resolve(wish, wish, &[data]).unwrap();
        assert_eq!(exposures, [Exposure { path: workspace, is_directory: true, writable: true }]);
    }

    #[test]
    fn missing_relative_and_writable_file_paths_are_rejected() {
        assert!(refusal(&["relative"], &[], &[]).contains("not absolute"));
        assert!(refusal(&["/nonexistent/path"], &[], &[]).contains("cannot be shared"));
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(refusal(&[], &[file.path().to_str().unwrap()], &[]).contains("only directories"));
    }
}
