//! Well-known servers, and how the owner's values make a registration out of an entry.
//!
//! Invariants: an entry's package and version exist in its registry; a value goes where its entry
//! says and nowhere else, and cannot turn into another option of the program.
//!
//! Deliberately absent: downloading. An entry names the package runner that does it, or the owner
//! names a program that is already installed.

mod entries;
mod entry;
mod instantiate;
mod registration;

pub use entry::{CatalogEntry, EntryTransport, Runner, ValueKind, ValuePlace, ValueSpec};
pub use registration::{EnvironmentValue, EnvironmentVariable, Registration, RegistrationTransport};

/// All entries, in the order in which they are shown.
#[must_use]
pub fn catalog() -> &'static [CatalogEntry] {
    entries::ENTRIES
}

/// The entry with this id.
#[must_use]
pub fn find_entry(id: &str) -> Option<&'static CatalogEntry> {
    catalog().iter().find(|entry| entry.id == id)
}
