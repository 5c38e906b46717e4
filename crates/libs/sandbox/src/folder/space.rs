//! What a file system has left, and how much of that is kept back.
//!
//! A disk that is full takes more with it than the workspace that filled it: the database cannot be
//! written any more. So the last of it is for nobody who works in a workspace.

use std::fmt;
use std::os::fd::AsFd;

use rustix::fs::{StatVfs, fstatvfs};
use rustix::io::Errno;

const MOST_KEPT_BYTES: u64 = 200 << 20;
const MOST_KEPT_FILES: u64 = 2_000;
/// Of a small disk less is kept: one in so many.
const SHARE: u64 = 50;

/// What a file system has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    pub total_bytes: u64,
    /// For everybody, not for root alone.
    pub free_bytes: u64,
    /// 0 where files are not counted.
    pub total_files: u64,
    pub free_files: u64,
}

/// Less is left than is kept back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    Bytes { free: u64, kept: u64 },
    Files { free: u64, kept: u64 },
}

impl Space {
    #[must_use]
    pub fn of(numbers: &StatVfs) -> Self {
        Self {
            total_bytes: numbers.f_blocks.saturating_mul(numbers.f_frsize),
            free_bytes: numbers.f_bavail.saturating_mul(numbers.f_frsize),
            total_files: numbers.f_files,
            free_files: numbers.f_favail,
        }
    }

    /// # Errors
    /// The file system does not say.
    pub fn at(folder: impl AsFd) -> Result<Self, Errno> {
        fstatvfs(folder).map(|numbers| Self::of(&numbers))
    }

    /// What is wanting, if something is.
    #[must_use]
    pub fn shortage(&self) -> Option<Shortage> {
        let kept_bytes = MOST_KEPT_BYTES.min(self.total_bytes / SHARE);
        if self.free_bytes < kept_bytes {
            return Some(Shortage::Bytes { free: self.free_bytes, kept: kept_bytes });
        }
        let kept_files = MOST_KEPT_FILES.min(self.total_files / SHARE);
        (self.free_files < kept_files).then_some(Shortage::Files { free: self.free_files, kept: kept_files })
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes { free, kept } => {
                write!(f, "{} of the disk are left, and the last {} are kept for the daemon", size(*free), size(*kept))
            }
            Self::Files { free, kept } => {
                write!(f, "the disk takes {free} more files, and the last {kept} are kept for the daemon")
            }
        }
    }
}

fn size(bytes: u64) -> String {
    if bytes >= 10 << 20 { format!("{} MB", bytes >> 20) } else { format!("{} kB", bytes >> 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(total_bytes: u64, free_bytes: u64, total_files: u64, free_files: u64) -> Space {
        Space { total_bytes, free_bytes, total_files, free_files }
    }

    #[test]
    fn the_last_of_a_disk_is_kept_and_less_of_a_small_one() {
        const GIB: u64 = 1 << 30;
        let enough = 1_000_000;
        assert_eq!(space(100 * GIB, 200 << 20, enough, enough).shortage(), None);
        let short = Shortage::Bytes { free: (200 << 20) - 1, kept: 200 << 20 };
        assert_eq!(space(100 * GIB, (200 << 20) - 1, enough, enough).shortage(), Some(short));
        assert_eq!(space(GIB, 21 << 20, enough, enough).shortage(), None);
        assert!(space(GIB, 20 << 20, enough, enough).shortage().is_some());
        assert_eq!(space(GIB, GIB, enough, 2_000).shortage(), None);
        let short = Shortage::Files { free: 1_999, kept: 2_000 };
        assert_eq!(space(GIB, GIB, enough, 1_999).shortage(), Some(short));
        assert_eq!(space(GIB, GIB, 1_000, 20).shortage(), None);
        assert!(space(GIB, GIB, 1_000, 19).shortage().is_some());
        assert_eq!(space(GIB, GIB, 0, 0).shortage(), None, "a file system that does not count files");
    }

    #[test]
    fn a_shortage_is_said_with_its_figures() {
        let said = Shortage::Bytes { free: 150 << 20, kept: 200 << 20 }.to_string();
        assert_eq!(said, "150 MB of the disk are left, and the last 200 MB are kept for the daemon");
        let said = Shortage::Bytes { free: 9_000, kept: 20 << 10 }.to_string();
        assert_eq!(said, "8 kB of the disk are left, and the last 20 kB are kept for the daemon");
        let said = Shortage::Files { free: 7, kept: 2_000 }.to_string();
        assert_eq!(said, "the disk takes 7 more files, and the last 2000 are kept for the daemon");
    }
}
