//! A disk that fails, under SQLite, and connections that break, before PostgreSQL ([`Proxy`]).
//!
//! A shim over SQLite's own file system is made the default of this process. Files in a folder that a
//! [`FaultyDisk`] watches go through it: it counts what is done to them, lets an operation fail, and knows at each
//! moment what of them a power cut would leave. Files of all other folders are not touched.
//!
//! What a power cut leaves: what was synced, and of what was written since nothing, or some of its sectors. After a
//! sync that failed, what it was to bring to the disk counts as clean and is never written by itself, as on Linux.
//! The index of the log is memory, and is lost.

mod disk;
mod proxy;
mod vfs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::disk::Disk;
pub use self::proxy::{Break, Commit, Proxy};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Half of what is written gets there, and the write fails.
    ShortWrite,
    WriteError,
    ReadError,
    SyncError,
    /// Writes behind the end of a file fail.
    NoSpace,
    /// Everything fails from here on; what is left says [`FaultyDisk::after_power_cut`].
    PowerCut,
    /// Syncs say that they succeeded and do nothing: not a fault of disks, but what a forgotten sync is like.
    NoSync,
}

/// A fault, and which of the operations that it can strike it strikes: from the first-th (counted from 1, since it was
/// planned) on, so many.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub kind: FaultKind,
    pub first: u64,
    pub times: u64,
}

/// How often each was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Operations {
    pub reads: u64,
    pub writes: u64,
    /// Of the writes, those behind the end of their file.
    pub extending: u64,
    pub syncs: u64,
    /// Truncations, removals.
    pub others: u64,
}

impl Operations {
    /// How many a fault of this kind can strike.
    #[must_use]
    pub fn that_meet(&self, kind: FaultKind) -> u64 {
        match kind {
            FaultKind::ShortWrite | FaultKind::WriteError => self.writes,
            FaultKind::NoSpace => self.extending,
            FaultKind::ReadError => self.reads,
            FaultKind::SyncError | FaultKind::NoSync => self.syncs,
            FaultKind::PowerCut => self.writes + self.syncs + self.others,
        }
    }
}

/// What happens to sectors that were written and not synced when the power is cut, or when a sync fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsynced {
    Lost,
    /// About half of them are kept; the seed says which.
    Half(u64),
}

/// The files of a folder, as they are found after something ended.
#[derive(Debug, Clone, Default)]
pub struct Image(BTreeMap<String, Vec<u8>>);

impl Image {
    /// Puts the files into an empty folder.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn write_to(&self, folder: &Path) -> std::io::Result<()> {
        self.0.iter().try_for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes))
    }
}

/// Watches the SQLite files that lie in a folder, until it is dropped.
#[derive(Debug)]
pub struct FaultyDisk {
    folder: PathBuf,
    disk: Arc<Disk>,
}

impl FaultyDisk {
    /// To be called before a database in `folder` is opened. `failed_syncs` says what of that which a failed sync was
    /// to write gets to the disk all the same.
    ///
    /// # Errors
    /// The folder is not there.
    pub fn under(folder: &Path, failed_syncs: Unsynced) -> std::io::Result<Self> {
        let folder = folder.canonicalize()?;
        let disk = Arc::new(Disk::new(&folder, failed_syncs));
        vfs::watch(&folder, &disk);
        Ok(Self { folder, disk })
    }

    pub fn plan(&self, fault: Fault) {
        self.disk.plan(Some(fault));
    }

    /// The fault is gone. A power cut stays.
    pub fn clear(&self) {
        self.disk.plan(None);
    }

    /// As if nobody wrote the log again after a failed sync: for the proof that this would be seen.
    pub fn ignore_rewriting(&self) {
        self.disk.ignore_rewriting();
    }

    /// What was done since the folder is watched.
    #[must_use]
    pub fn operations(&self) -> Operations {
        self.disk.operations()
    }

    /// How many operations failed, or were left out, by a fault.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.disk.injected()
    }

    /// What is there after the process was killed now.
    #[must_use]
    pub fn after_kill(&self) -> Image {
        Image(self.disk.current())
    }

    /// What is there after the power was cut, now or when that was planned.
    #[must_use]
    pub fn after_power_cut(&self, unsynced: Unsynced) -> Image {
        Image(self.disk.durable(unsynced))
    }
}

impl Drop for FaultyDisk {
    fn drop(&mut self) {
        vfs::forget(&self.folder);
    }
}
