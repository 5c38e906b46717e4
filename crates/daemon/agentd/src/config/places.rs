//! Default places of files. None depends on the working directory, because other users may write there.

use std::path::{Path, PathBuf};

use agentd_inference::embedder::DEFAULT_MODEL_FILE;

use super::Config;

const FILE_NAME: &str = "agentd.toml";
const SYSTEM_FILE: &str = "/etc/agentd/agentd.toml";

/// Returns the user's directory for configuration files: `$XDG_CONFIG_HOME/agentd`, else `~/.config/agentd`.
#[must_use]
pub fn user_config_dir() -> Option<PathBuf> {
    user_dir("XDG_CONFIG_HOME", ".config")
}

/// Returns the user's directory for data: `$XDG_DATA_HOME/agentd`, else `~/.local/share/agentd`.
pub(super) fn user_data_dir() -> Option<PathBuf> {
    user_dir("XDG_DATA_HOME", ".local/share")
}

pub(super) fn default_files() -> impl Iterator<Item = PathBuf> {
    user_config_dir().map(|directory| directory.join(FILE_NAME)).into_iter().chain([PathBuf::from(SYSTEM_FILE)])
}

impl Config {
    /// Directories that are searched for models, in this order.
    #[must_use]
    pub fn model_dirs(&self) -> Vec<PathBuf> {
        let own = self.data_dir.join("models");
        let directories = std::iter::once(own).chain(self.models_dir.clone());
        directories.map(|directory| std::path::absolute(&directory).unwrap_or(directory)).collect()
    }

    /// Candidates for the file of the embedding model; the first that exists is used.
    #[must_use]
    pub fn embedding_model_paths(&self) -> Vec<PathBuf> {
        match &self.embedding_model {
            Some(path) => vec![path.clone()],
            None => self.model_dirs().into_iter().map(|directory| directory.join(DEFAULT_MODEL_FILE)).collect(),
        }
    }

    /// Configuration files that exist where earlier versions read them and are ignored.
    #[must_use]
    pub fn ignored_files(&self) -> Vec<PathBuf> {
        let in_use = self.file.as_ref().and_then(|file| file.canonicalize().ok());
        let present = former_files(&self.data_dir).into_iter().filter_map(|file| file.canonicalize().ok());
        present.filter(|file| Some(file) != in_use.as_ref()).collect()
    }
}

/// Files that earlier versions read and this one does not: those of the working and of the data directory.
fn former_files(data_dir: &Path) -> [PathBuf; 2] {
    [PathBuf::from(FILE_NAME), data_dir.join(FILE_NAME)]
}

fn user_dir(variable: &str, below_home: &str) -> Option<PathBuf> {
    let base = absolute_variable(variable).or_else(|| Some(absolute_variable("HOME")?.join(below_home)))?;
    Some(base.join("agentd"))
}

/// A relative path in such a variable is invalid and ignored, as the XDG specification demands.
fn absolute_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
