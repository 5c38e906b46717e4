//! Free space of a file system, and the part of it that is reserved.
//!
//! A full disk affects more than the workspace that filled it: the database can no longer be written. Therefore the
//! remainder is not available to workspaces.

use std::fmt;
use std::os::fd::AsFd;

use rustix::fs::{StatVfs, fstatvfs};
use rustix::io::Errno;

const MAX_RESERVED_BYTES: u64 = 200 << 20;
const MAX_RESERVED_FILES: u64 = 2_000;
/// Fraction reserved on small disks: 1/50.
const RESERVED_DIVISOR: u64 = 50;

/// Free space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    pub total_bytes: u64,
    /// Space available to all users, not only to root.
    pub free_bytes: u64,
    /// 0 if the file system does not count files.
    pub total_files: u64,
    pub free_files: u64,
}

/// Kind of resource of which less is free than is reserved.
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

    /// Reads the free space of the file system of `folder`.
    ///
    /// # Errors
    /// Returns an error if the file system does not report it.
    pub fn at(folder: impl AsFd) -> Result<Self, Errno> {
        fstatvfs(folder).map(|numbers| Self::of(&numbers))
    }

    /// Returns the resource that is short, if any.
    #[must_use]
    pub fn shortage(&self) -> Option<Shortage> {
        let kept_bytes = MAX_RESERVED_BYTES.min(self.total_bytes / RESERVED_DIVISOR);
        if self.free_bytes < kept_bytes {
            return Some(Shortage::Bytes { free: self.free_bytes, kept: kept_bytes });
        }
        let kept_files = MAX_RESERVED_FILES.min(self.total_files / RESERVED_DIVISOR);
        (self.free_files < kept_files).then_some(Shortage::Files { free: self.free_files, kept: kept_files })
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes { free, kept } => {
                write!(
                    f,
                    "too little disk space: {} are free, {} are reserved for the daemon",
                    size(*free),
                    size(*kept)
                )
            }
            Self::Files { free, kept } => {
                write!(
                    f,
                    "too few files can be created on the disk: {free} are free, {kept} are reserved for the daemon"
                )
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
    fn reserve_is_smaller_on_small_disks() {
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
    fn shortage_message_contains_the_sizes() {
        let message = Shortage::Bytes { free: 150 << 20, kept: 200 << 20 }.to_string();
        assert_eq!(message, "too little disk space: 150 MB are free, 200 MB are reserved for the daemon");
        let message = Shortage::Bytes { free: 9_000, kept: 20 << 10 }.to_string();
        assert_eq!(message, "too little disk space: 8 kB are free, 20 kB are reserved for the daemon");
        let message = Shortage::Files { free: 7, kept: 2_000 }.to_string();
        assert_eq!(message, "too few files can be created on the disk: 7 are free, 2000 are reserved for the daemon");
    }
}
