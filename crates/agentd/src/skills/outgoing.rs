//! Files of a workspace that are handed to something outside of it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::tool::ToolError;
use super::workspace::{RelativePath, Workspace, WorkspaceError};

/// Copies a file into a folder that is nobody else's, under its own name.
pub(super) async fn copy_out(workspace: &Path, path: &str, folder: &Path, limit: u64) -> Result<PathBuf, ToolError> {
    let (workspace, path, folder) = (workspace.to_path_buf(), RelativePath::parse_file(path)?, folder.to_path_buf());
    let copied = tokio::task::spawn_blocking(move || {
        let file = Workspace::open(&workspace)?.open_file(&path)?;
        let too_large = |bytes| WorkspaceError::TooLarge { path: path.to_string(), bytes, limit };
        if file.bytes > limit {
            return Err(too_large(file.bytes));
        }
        let name = path.to_string();
        let target = folder.join(name.rsplit('/').next().unwrap_or_default());
        let failed = |source: io::Error| WorkspaceError::Io { path: path.to_string(), source };
        let mut copy = File::create_new(&target).map_err(failed)?;
        // It may grow while it is read.
        let bytes = io::copy(&mut file.into_reader().take(limit + 1), &mut copy).map_err(failed)?;
        if bytes > limit { Err(too_large(bytes)) } else { Ok(target) }
    });
    Ok(copied.await.map_err(|_| ToolError::Failed("reading a file broke off".to_owned()))??)
}
