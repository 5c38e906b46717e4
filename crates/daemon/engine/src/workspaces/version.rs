//! Versions of files, to prevent lost updates.

use std::fmt;

use rustix::fs::Stat;

use super::{RelativePath, WorkspaceError};

/// State of a file; differs after each change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    inode: u64,
    bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl Version {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: nanoseconds(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
            changed_ns: nanoseconds(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
        }
    }

    /// Returns the time of the last change of the content, in microseconds since 1970.
    #[must_use]
    pub fn modified_us(&self) -> i64 {
        i64::try_from(self.modified_ns.div_euclid(1_000)).unwrap_or(0)
    }
}

/// Formats the version as in an `ETag`, without the quotes.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inode, bytes, modified_ns, changed_ns } = self;
        write!(f, "{inode:x}-{bytes:x}-{modified_ns:x}-{changed_ns:x}")
    }
}

fn nanoseconds(seconds: i128, rest: i128) -> i128 {
    seconds * 1_000_000_000 + rest
}

/// State of the target that a writer expects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Expected {
    #[default]
    Anything,
    /// The file does not exist.
    Nothing,
    /// The file exists.
    Something,
    /// One of these versions, in the form of an `ETag`.
    OneOf(Vec<String>),
}

impl Expected {
    pub(super) fn require(&self, found: Option<&Stat>, path: &RelativePath) -> Result<(), WorkspaceError> {
        let shown = || path.to_string();
        match (self, found) {
            (Self::Nothing, Some(_)) => Err(WorkspaceError::Exists { path: shown() }),
            (Self::Something, None) => Err(WorkspaceError::Changed { path: shown() }),
            (Self::OneOf(known), found) => {
                let is_known = |stat| known.contains(&Version::of(stat).to_string());
                if found.is_some_and(is_known) { Ok(()) } else { Err(WorkspaceError::Changed { path: shown() }) }
            }
            _ => Ok(()),
        }
    }
}
