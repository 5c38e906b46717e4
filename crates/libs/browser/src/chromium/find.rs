//! Search for the Chromium executable.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::BrowserError;

/// Debian's executable behind its launcher script, which would add extensions and Google API keys.
const DEBIAN_EXECUTABLE: &str = "/usr/lib/chromium/chromium";
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const INSTALL_HINT: &str = "install Chromium (`apt-get install chromium` on Debian)";

/// Returns the named executable, or else the installed one.
///
/// # Errors
/// [`BrowserError::Unavailable`] if it does not exist.
pub fn find_chromium(named: Option<&Path>) -> Result<PathBuf, BrowserError> {
    if let Some(path) = named {
        return if is_executable(path) {
            Ok(path.to_path_buf())
        } else {
            Err(BrowserError::Unavailable(format!(
                "`{}` is not an executable; set SVC_BROWSER_PATH to another one, or {INSTALL_HINT}",
                path.display()
            )))
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A relative directory would let the working directory decide which program runs.
    let directories: Vec<PathBuf> = std::env::split_paths(&path).filter(|directory| directory.is_absolute()).collect();
    let on_path = NAMES.iter().flat_map(|name| directories.iter().map(move |directory| directory.join(name)));
    std::iter::once(PathBuf::from(DEBIAN_EXECUTABLE)).chain(on_path).find(|path| is_executable(path)).ok_or_else(|| {
        BrowserError::Unavailable(format!(
            "Chromium not found; {INSTALL_HINT}, or set SVC_BROWSER_PATH to its executable"
        ))
    })
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
