//! Backup and restore of everything that the daemon keeps, on a running daemon, from either
//! database into either.
//!
//! An archive is a gzip-compressed tar file that ordinary tools can read. In this order it holds
//! `manifest.json` (what this is, and the names of the stored secrets), `database.jsonl` (the
//! store's logical dump without the secrets), `secrets.sealed` (only with a passphrase), the
//! folders `agents/`, `avatars/` and `recordings/`, and last `contents.jsonl`: a line for each
//! entry before it with its size and SHA-256.
//!
//! Invariants: nothing is changed before the whole archive was read and every hash agreed; the
//! database is replaced in one transaction; a journal makes the files follow the database,
//! whatever moment the daemon is killed at; one daemon at a time works on backups among all that
//! share a data directory; symlinks are stored as links and never followed, and
//! only those that stay within their workspace; what cannot be read fails a backup, unless it may be
//! incomplete, and is named; holes in files stay holes, and a file with several names stays one;
//! whatever a backup wrote can be restored where there is room for it;
//! memory does not grow with what is stored;
//! every domain validates its restored rows by its own types before they are committed.
//!
//! The daemon keeps archives itself in `backups/` of the data directory, which is no part of any: made when asked or
//! once a day, uploaded, restored over HTTP. One is listed once it is whole and checked; whoever works on it holds the
//! lock, and what a killed daemon left of one is removed. What is being done stands in a file beside them.
//!
//! Deliberately absent: models, which can be fetched again; the key file, without which the
//! sealed secrets of the data directory are worthless to a thief; signatures: an archive is as
//! trustworthy as the place where its owner keeps it.

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
pub use kept::{KeptArchive, Work, WorkFailure, WorkKind, WorkState};
pub use model::{LeftOut, LeftOutList, Manifest, RestoreReport, SecretName};
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
