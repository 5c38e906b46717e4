//! The archives that the daemon keeps itself, in `backups/` of the data directory, and what is being done with them.

mod folder;
mod partial;
mod work;

pub use folder::KeptArchive;
pub(super) use folder::KeptFolder;
pub(super) use partial::{Partial, remove_abandoned_parts};
pub use work::{Work, WorkFailure, WorkKind, WorkState};
