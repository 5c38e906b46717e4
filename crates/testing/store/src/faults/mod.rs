//! Disk faults below SQLite, and connection faults in front of PostgreSQL ([`Proxy`]).
//!
//! A shim around SQLite's own VFS becomes the default of this process. It intercepts files in a folder that is watched
//! by a [`FaultyDisk`]: it counts operations, makes them fail, and tracks what a power cut would leave. Files in other
//! folders are unaffected.
//!
//! A power cut leaves all synced data, and none or some sectors of the unsynced writes. After a failed sync, the
//! affected pages count as clean and are never written again by themselves, as on Linux. The index of the log is in
//! memory and is lost.

mod disk;
mod proxy;
mod vfs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::disk::Disk;
pub use self::proxy::{Break, Commit, Proxy};

/// Kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Half of the data is written, and the write fails.
    ShortWrite,
    WriteError,
    ReadError,
    SyncError,
    /// Writes past the end of a file fail.
    NoSpace,
    /// All operations fail from here on; see [`FaultyDisk::after_power_cut`] for the remaining data.
    PowerCut,
    /// Syncs report success but do nothing. Not a disk fault, but equivalent to a forgotten sync.
    NoSync,
}

/// Planned fault: affects `times` matching operations, starting with number `first` (counted from 1 since the plan).
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub kind: FaultKind,
    pub first: u64,
    pub times: u64,
}

/// Number of operations by type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Operations {
    pub reads: u64,
    pub writes: u64,
    /// Number of writes past the end of their file.
    pub extending: u64,
    pub syncs: u64,
    /// Truncations and removals.
    pub others: u64,
}

impl Operations {
    /// Returns the number of operations that a fault of this kind can affect.
    #[must_use]
    pub fn matching(&self, kind: FaultKind) -> u64 {
        match kind {
            FaultKind::ShortWrite | FaultKind::WriteError => self.writes,
            FaultKind::NoSpace => self.extending,
            FaultKind::ReadError => self.reads,
            FaultKind::SyncError | FaultKind::NoSync => self.syncs,
            FaultKind::PowerCut => self.writes + self.syncs + self.others,
        }
    }
}

/// Fate of unsynced sectors in a power cut or a failed sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsynced {
    Lost,
    /// About half of them are retained, selected by the seed.
    Half(u64),
}

/// Files of a folder after a crash.
#[derive(Debug, Clone, Default)]
pub struct Image(BTreeMap<String, Vec<u8>>);

impl Image {
    /// Writes the files to an empty folder.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn write_to(&self, folder: &Path) -> std::io::Result<()> {
        self.0.iter().try_for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes))
    }
}

/// Watches the SQLite files of a folder until it is dropped.
#[derive(Debug)]
pub struct FaultyDisk {
    folder: PathBuf,
    disk: Arc<Disk>,
}

impl FaultyDisk {
    /// Starts watching; must be called before a database in `folder` is opened. `failed_syncs` determines which data of
    /// a failed sync reaches the disk anyway.
    ///
    /// # Errors
    /// The folder does not exist.
    pub fn watch(folder: &Path, failed_syncs: Unsynced) -> std::io::Result<Self> {
        let folder = folder.canonicalize()?;
        let disk = Arc::new(Disk::new(&folder, failed_syncs));
        vfs::watch(&folder, &disk);
        Ok(Self { folder, disk })
    }

    pub fn plan(&self, fault: Fault) {
        self.disk.plan(Some(fault));
    }

    /// Ends the fault. A power cut persists.
    pub fn clear(&self) {
        self.disk.plan(None);
    }

    /// Ignores rewriting of the log after a failed sync, to prove that tests would detect its absence.
    pub fn ignore_rewriting(&self) {
        self.disk.ignore_rewriting();
    }

    /// Returns the number of operations since watching started.
    #[must_use]
    pub fn operations(&self) -> Operations {
        self.disk.operations()
    }

    /// Returns the number of operations that failed or were skipped by a fault.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.disk.injected()
    }

    /// Returns the files as they would be after the process was killed now.
    #[must_use]
    pub fn after_kill(&self) -> Image {
        Image(self.disk.current())
    }

    /// Returns the files as they would be after a power cut, now or at the planned time.
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
