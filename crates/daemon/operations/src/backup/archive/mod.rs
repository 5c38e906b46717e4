//! Streaming reader and writer of archives. Both block and run on a blocking thread.

mod contents;
mod entry;
mod pipe;
mod read;
mod sparse;
mod unpacked;
mod walk;
mod write;

pub use read::{ArchiveSummary, verify};

pub(super) use contents::sha256_of;
pub(super) use pipe::{PipeReader, PipeWriter, pipe};
pub(super) use read::{Unpacked, read_manifest, tempfile_in, unpack};
pub(super) use unpacked::DiskGuard;
pub(super) use walk::survey;
pub(super) use write::{Source, write};
