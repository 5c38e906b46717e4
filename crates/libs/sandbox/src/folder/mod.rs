//! Folders in which code worked that nobody vouches for: getting into them, looking over them and
//! removing them; and what is left of the disk that they are on.
//!
//! Invariants
//! - Every step is relative to an open folder and follows no link, so that what is swapped
//!   meanwhile leads nowhere.
//! - Who is kept out by a mode alone, and owns the thing, gives the mode back to itself: by a handle
//!   of that very thing, never by its name.
//! - However deep folders are nested, two handles are open and nothing recurses.

mod descent;
mod open;
mod remove;
mod space;
mod survey;

pub use open::{FOLDER, Need, open_file, open_folder};
pub use remove::{remove, remove_path};
pub use space::{Shortage, Space};
pub use survey::{Closed, NAMES_BETWEEN_CHECKS, Size, count_names, measure, survey};

#[cfg(test)]
mod tests;
