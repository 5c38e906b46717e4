//! The archive: written and read as a stream, on a thread that may block.

mod contents;
mod pipe;
mod read;
mod walk;
mod write;

pub use read::{ArchiveSummary, verify};

pub(super) use pipe::{PipeReader, PipeWriter, pipe};
pub(super) use read::{Unpacked, tempfile_in, unpack};
pub(super) use write::{Source, write};
