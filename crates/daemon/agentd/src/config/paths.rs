//! Default paths. None depends on the working directory, because other users may be able to write there.

use std::path::{Path, PathBuf};

const FILE_NAME: &str = "agentd.toml";
const SYSTEM_FILE: &str = "/etc/agentd/agentd.toml";

/// Returns the user's configuration directory: `$XDG_CONFIG_HOME/agentd`, or `~/.config/agentd`.
#[must_use]
pub fn user_config_dir() -> Option<PathBuf> {
    user_dir("XDG_CONFIG_HOME", ".config")
}

/// Returns the user's data directory: `$XDG_DATA_HOME/agentd`, or `~/.local/share/agentd`.
pub(super) fn user_data_dir() -> Option<PathBuf> {
    user_dir("XDG_DATA_HOME", ".local/share")
}

pub(super) fn default_files() -> impl Iterator<Item = PathBuf> {
    user_config_dir().map(|directory| directory.join(FILE_NAME)).into_iter().chain([PathBuf::from(SYSTEM_FILE)])
}

/// Returns the configuration files that earlier versions read from the working directory and the data directory.
pub(super) fn former_files(data_dir: &Path) -> [PathBuf; 2] {
    [PathBuf::from(FILE_NAME), data_dir.join(FILE_NAME)]
}

fn user_dir(variable: &str, below_home: &str) -> Option<PathBuf> {
    let base = absolute_variable(variable).or_else(|| Some(absolute_variable("HOME")?.join(below_home)))?;
    Some(base.join("agentd"))
}

/// Returns the path in a variable. Relative paths are ignored, as the XDG Base Directory specification requires.
fn absolute_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
