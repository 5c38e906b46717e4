//! Archives stored by the daemon in `backups/` of the data directory, and the state of the current operation.

mod folder;
mod partial;
mod work;

pub(super) use folder::BackupFolder;
pub use folder::StoredArchive;
pub(super) use partial::{Partial, remove_abandoned_parts};
pub use work::{Work, WorkFailure, WorkKind, WorkState};
