//! Folders in which untrusted code has worked: opening, traversing and removing them, and the free space of their disk.
//!
//! Invariants:
//! - Every step is relative to an open folder and follows no link, so that swapped entries have no effect.
//! - An owner excluded only by a mode restores it, using a handle of the object, never its name.
//! - Regardless of nesting depth, two handles are open and nothing recurses.

mod descent;
mod open;
mod remove;
mod space;
mod survey;

pub use open::{FOLDER, FolderAccess, open_file, open_folder};
pub use remove::{remove, remove_path};
pub use space::{Shortage, Space};
pub use survey::{Closed, NAMES_BETWEEN_CHECKS, Size, count_names, measure, survey};

#[cfg(test)]
mod tests;
