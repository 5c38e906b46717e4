//! Reading of files.

use std::fs::File;
use std::io::{self, BufReader, Read};

use agentd_sandbox::folder;
use rustix::fs::{AtFlags, fstat, statat};
use rustix::io::Errno;

use super::workspace::require_plain;
use super::{RelativePath, Version, Workspace, WorkspaceError};

/// An open regular file.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    pub bytes: u64,
    pub version: Version,
}

impl Workspace {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// The file does not exist, or is not a regular file with one name.
    pub fn open_file(&self, path: &RelativePath) -> Result<OpenFile, WorkspaceError> {
        let Some((folder, name)) = path.split() else {
            return Err(WorkspaceError::IsFolder { path: path.to_string() });
        };
        let parent = self.folder(&folder)?;
        let missing = |error| match error {
            Errno::NOENT => WorkspaceError::Missing { path: path.to_string() },
            Errno::LOOP => WorkspaceError::Link { path: path.to_string() },
            Errno::NXIO => WorkspaceError::Special { path: path.to_string() },
            error => path.failed(error),
        };
        // Checked before opening, because opening a device has side effects; checked again afterwards, because the file
        // may have been swapped.
        let before = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(missing)?;
        require_plain(&before, path)?;
        let file = folder::open_file(&parent, name).map_err(missing)?;
        let stat = fstat(&file).map_err(|e| path.failed(e))?;
        require_plain(&stat, path)?;
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        Ok(OpenFile { file: file.into(), bytes, version: Version::of(&stat) })
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// See [`Self::open_file`]; also if it is longer than `limit` bytes.
    pub fn read(&self, path: &RelativePath, limit: u64) -> Result<Vec<u8>, WorkspaceError> {
        let file = self.open_file(path)?;
        let too_large = |bytes| WorkspaceError::TooLarge { path: path.to_string(), bytes, limit };
        if file.bytes > limit {
            return Err(too_large(file.bytes));
        }
        let mut content = Vec::with_capacity(usize::try_from(file.bytes).unwrap_or(0));
        let failed = |source: io::Error| WorkspaceError::Io { path: path.to_string(), source };
        // The file may grow while it is read.
        file.file.take(limit + 1).read_to_end(&mut content).map_err(failed)?;
        if content.len() as u64 > limit {
            return Err(too_large(content.len() as u64));
        }
        Ok(content)
    }
}

impl OpenFile {
    #[must_use]
    pub fn into_file(self) -> File {
        self.file
    }

    #[must_use]
    pub fn into_reader(self) -> BufReader<File> {
        BufReader::with_capacity(64 * 1024, self.file)
    }
}
