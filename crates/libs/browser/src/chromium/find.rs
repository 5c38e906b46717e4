//! Chromium on this machine.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::BrowserError;

/// Debian's program behind its launcher script, which would add extensions and keys of Google's services.
const BEHIND_LAUNCHER: &str = "/usr/lib/chromium/chromium";
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const INSTALL: &str = "install Chromium (`apt-get install chromium` on Debian)";

/// The program that is started: the one that is named, or else that of the machine.
///
/// # Errors
/// There is none, with what to install.
pub fn find_chromium(named: Option<&Path>) -> Result<PathBuf, BrowserError> {
    if let Some(path) = named {
        return if is_program(path) {
            Ok(path.to_path_buf())
        } else {
            Err(BrowserError::Unavailable(format!(
                "`{}` is not a program that can be run; name another, or {INSTALL}",
                path.display()
            )))
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A relative folder would let the working directory decide which program runs.
    let folders: Vec<PathBuf> = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    let on_path = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    std::iter::once(PathBuf::from(BEHIND_LAUNCHER))
        .chain(on_path)
        .find(|path| is_program(path))
        .ok_or_else(|| BrowserError::Unavailable(format!("{INSTALL}, or name its program")))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
