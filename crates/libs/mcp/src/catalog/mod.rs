//! Well-known servers, and the creation of registrations from them.
//!
//! Invariants: an entry's package and version exist in its registry; a value is placed only where its entry specifies
//! and cannot become another option of the program.
//!
//! Out of scope: downloading. The entry's package runner does that, or the owner names an installed program.

mod entries;
mod entry;
mod instantiate;
mod registration;

pub use entry::{CatalogEntry, EntryTransport, Runner, ValueKind, ValuePlace, ValueSpec};
pub use registration::{EnvironmentValue, EnvironmentVariable, Registration, RegistrationTransport};

/// Returns all entries, in display order.
#[must_use]
pub fn catalog() -> &'static [CatalogEntry] {
    entries::ENTRIES
}

/// Returns the entry with this id.
#[must_use]
pub fn find_entry(id: &str) -> Option<&'static CatalogEntry> {
    catalog().iter().find(|entry| entry.id == id)
}
