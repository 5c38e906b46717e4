//! Transfers files into and out of a workspace.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::tool::ToolError;
use crate::workspaces::{Expected, NewFile, RelativePath, Workspace, WorkspaceError, WorkspaceQuota};

/// A workspace file that is being written. It appears under its name only when complete.
#[derive(Debug)]
pub struct WorkspaceFile(NewFile);

impl WorkspaceFile {
    pub(super) async fn create(
        workspace: &Path,
        quota: &WorkspaceQuota,
        path: &str,
        mark: &str,
    ) -> Result<Self, ToolError> {
        let (workspace, path, mark) = (workspace.to_path_buf(), RelativePath::parse_file(path)?, mark.to_owned());
        let quota = quota.clone();
        blocking(move || Workspace::open(&workspace)?.create(&path, &mark, &quota).map(Self)).await
    }

    pub(super) async fn exists(workspace: &Path, path: &str) -> Result<bool, ToolError> {
        let (workspace, path) = (workspace.to_path_buf(), RelativePath::parse_file(path)?);
        blocking(move || Workspace::open(&workspace)?.has_file(&path)).await
    }

    /// Appends to the file.
    ///
    /// # Errors
    /// The workspace is full, or the file cannot be written. The partial file is then removed.
    pub async fn append(mut self, piece: Bytes) -> Result<Self, ToolError> {
        blocking(move || self.0.append(&piece).map(|()| self)).await
    }

    /// Publishes the file under its name.
    ///
    /// # Errors
    /// The file cannot be written; the partial file is then removed.
    pub async fn finish(self) -> Result<(), ToolError> {
        blocking(move || self.0.finish(&Expected::Anything).map(drop)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorkspaceError> + Send + 'static,
) -> Result<T, ToolError> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|_| ToolError::Failed("writing the file was aborted".to_owned()))??)
}

/// Copies a file of the workspace into a private folder under its own name.
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
        // The file may grow while it is read.
        let bytes = io::copy(&mut file.into_reader().take(limit + 1), &mut copy).map_err(failed)?;
        if bytes > limit { Err(too_large(bytes)) } else { Ok(target) }
    });
    Ok(copied.await.map_err(|_| ToolError::Failed("reading the file was aborted".to_owned()))??)
}

#[cfg(test)]
mod tests {
    use agentd_sandbox::WorkspaceBounds;

    use super::*;

    fn quota(bytes: u64) -> WorkspaceQuota {
        WorkspaceQuota::new(move || WorkspaceBounds { bytes, ..agentd_sandbox::Policy::default().workspace_bounds() })
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[tokio::test]
    async fn file_appears_only_when_complete() {
        let root = tempfile::tempdir().unwrap();
        let quota = quota(1 << 20);
        let begin = || WorkspaceFile::create(root.path(), &quota, "a/b.bin", "1");
        let file = begin().await.unwrap().append(Bytes::from_static(b"hel")).await.unwrap();
        assert!(!WorkspaceFile::exists(root.path(), "a/b.bin").await.unwrap());
        // A second writer starts as if this one had been killed.
        let second = begin().await.unwrap().append(Bytes::from_static(b"hello")).await.unwrap();
        assert!(file.finish().await.unwrap_err().to_string().contains("being modified"));
        second.finish().await.unwrap();
        assert_eq!(std::fs::read(root.path().join("a/b.bin")).unwrap(), b"hello");
        drop(begin().await.unwrap());
        assert_eq!(names(&root.path().join("a")), ["b.bin"]);
        assert!(WorkspaceFile::exists(root.path(), "a/b.bin").await.unwrap());
    }

    #[tokio::test]
    async fn file_that_exceeds_the_quota_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let file = WorkspaceFile::create(root.path(), &quota(100), "b.bin", "1").await.unwrap();
        let file = file.append(vec![0; 100].into()).await.unwrap();
        assert!(file.append(vec![0; 1].into()).await.unwrap_err().to_string().contains("workspace_limit_mb"));
        assert_eq!(names(root.path()).len(), 0);
    }

    #[tokio::test]
    async fn files_do_not_follow_links_out_of_the_workspace() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), root.path().join("attachments")).unwrap();
        for path in ["attachments/a/b.bin", "attachments/b.bin", "../b.bin", "/b.bin"] {
            assert!(WorkspaceFile::create(root.path(), &quota(1 << 20), path, "1").await.is_err(), "{path}");
        }
        std::os::unix::fs::symlink(outside.path().join("x"), root.path().join("link")).unwrap();
        assert!(WorkspaceFile::exists(root.path(), "link").await.is_err());
        assert_eq!(names(outside.path()).len(), 0);
    }
}
