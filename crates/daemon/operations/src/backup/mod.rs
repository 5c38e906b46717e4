//! Backup and restore of all data of a running daemon, between any combination of databases.
//!
//! An archive is a gzip-compressed tar file that ordinary tools can read. It contains, in this order: `manifest.json`
//! (description, and names of the stored secrets), `database.jsonl` (logical dump of the store without secrets),
//! `secrets.sealed` (only with a passphrase), the folders `agents/`, `avatars/` and `recordings/`, and
//! `contents.jsonl`, which lists all previous entries with size and SHA-256.
//!
//! Invariants
//! - Nothing is changed before the whole archive was read and every hash matched.
//! - The database is replaced in one transaction, and a journal keeps the files consistent with it even if the daemon
//!   is killed.
//! - Only one daemon per data directory works on backups at a time.
//! - Symlinks are stored as links and never followed; only links within their workspace are stored.
//! - Unreadable files fail a backup, unless it may be incomplete; they are listed in the manifest.
//! - Sparse files remain sparse, and hard links are preserved.
//! - Every backup can be restored, given enough disk space.
//! - Memory usage is independent of the amount of data.
//! - Every domain validates its restored rows with its own types before they are committed.
//!
//! The daemon stores archives in `backups/` of the data directory, which is not part of archives. They are created on
//! request or daily, uploaded, and restored over HTTP. An archive is listed only when it is complete and verified.
//! Operations hold the lock, and partial archives of killed daemons are removed. The state of the current operation is
//! stored in a file next to the archives.
//!
//! Not part of an archive: models, which can be downloaded again; and the key file, without which the encrypted secrets
//! of the data directory are useless to a thief. Archives are not signed: an archive is as trustworthy as the place
//! where it is stored.

mod archive;
mod backups;
mod error;
mod journal;
mod kept;
mod model;
mod routes;
mod sealing;
mod service;
mod settings;
mod worker;

use agentd_core::parts::{Domain, DomainParts};
use agentd_core::runtime::MetricList;

use routes::routes;
use worker::DailyBackup;

pub use backups::{Backups, WorkReport};
pub use error::BackupError;
pub use kept::{StoredArchive, Work, WorkFailure, WorkKind, WorkState};
pub use model::{Manifest, OmittedFiles, OmittedList, RestoreReport, SecretName};
pub use routes::{ALLOW_INCOMPLETE_HEADER, LEFT_OUT_HEADER, PASSPHRASE_HEADER, local_routes};
pub use service::{Backup, NewArchive, Quiesce, RestoreValidators, Unreadable, WhileBusy};

pub use archive::{ArchiveSummary, verify};
pub use settings::BackupSettings;

impl Domain for Backups {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![Box::new(DailyBackup::new(self.clone()))],
            metrics: MetricList::default(),
            bindings: Vec::new(),
            shutdown: Vec::new(),
        }
    }
}
