//! State of a paired machine: one file that only its user can read.

use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use agentd_core::runtime::read_trusted;
use serde::{Deserialize, Serialize};

use crate::cli::error::CliError;
use crate::config::user_config_dir;

const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Pairing with a daemon.
#[derive(Serialize, Deserialize)]
pub(super) struct Pairing {
    pub(super) url: String,
    pub(super) device_id: String,
    pub(super) name: String,
    /// Device token (`dev_…`).
    pub(super) token: String,
}

impl std::fmt::Debug for Pairing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Membership").field("url", &self.url).field("name", &self.name).finish_non_exhaustive()
    }
}

/// State directory, accessible only to its user.
#[derive(Debug)]
pub(super) struct State(PathBuf);

impl State {
    /// Opens the directory and creates it if needed.
    pub(super) fn open(path: Option<PathBuf>) -> Result<Self, CliError> {
        let path = path.or_else(default_path).ok_or_else(|| {
            CliError::Usage("HOME is not set; name a directory for the token with --state".to_owned())
        })?;
        let path = std::path::absolute(&path).map_err(CliError::file("resolving", &path))?;
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(CliError::file("creating", &path))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))
            .map_err(CliError::file("restricting permissions of", &path))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self) -> PathBuf {
        self.0.join("device.json")
    }

    /// Replaces the state file atomically.
    pub(super) fn save(&self, pairing: &Pairing) -> Result<(), CliError> {
        let path = self.file();
        let failed = || CliError::file("writing", &path);
        let text = serde_json::to_vec_pretty(pairing).map_err(|source| CliError::Unreadable { source })?;
        // Temporary files are created with mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(&self.0).map_err(failed())?;
        file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(failed())?;
        file.persist(&path).map_err(|error| failed()(error.error))?;
        Ok(())
    }

    pub(super) fn load(&self) -> Result<Pairing, CliError> {
        let path = self.file();
        let text = match read_trusted(&path, MAX_FILE_BYTES) {
            Err(error) if error.is_not_found() => {
                return Err(CliError::Usage(format!(
                    "this machine is not paired ({} does not exist); pair it with `agentd device join URL CODE`",
                    path.display()
                )));
            }
            other => other?,
        };
        serde_json::from_str(&text).map_err(|error| {
            CliError::Usage(format!(
                "{} cannot be read ({error}); pair this machine again with `agentd device join URL CODE`",
                path.display()
            ))
        })
    }
}

fn default_path() -> Option<PathBuf> {
    Some(user_config_dir()?.join("device"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_file_is_private_to_its_user() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(Some(folder.path().join("a/b"))).unwrap();
        assert!(state.load().unwrap_err().to_string().contains("not paired"));
        for token in ["dev_1", "dev_2"] {
            let pairing = Pairing {
                url: "http://localhost".to_owned(),
                device_id: "dev_x".to_owned(),
                name: "n".to_owned(),
                token: token.to_owned(),
            };
            state.save(&pairing).unwrap();
            assert!(!format!("{pairing:?}").contains(token));
            assert_eq!(state.load().unwrap().token, token);
        }
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&state.file()), mode(state.path())), (0o600, 0o700));
        std::fs::set_permissions(state.file(), std::fs::Permissions::from_mode(0o660)).unwrap();
        assert!(state.load().unwrap_err().to_string().contains("chmod go-w"));
        std::fs::set_permissions(state.file(), std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(state.file(), "{").unwrap();
        assert!(state.load().unwrap_err().to_string().contains("pair this machine again"));
    }
}
