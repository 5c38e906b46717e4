//! The folders that agents work in. A [`Workspace`] is reached through an open handle: nothing that is named here lies
//! outside it. [`WorkspaceFolders`] makes and removes the folders.
//!
//! Invariants
//! - A path is walked one name at a time, each opened relative to the handle of the folder before
//!   it and never through a symbolic link. So what is opened is what was checked, whatever is
//!   renamed, swapped or linked meanwhile, on every kernel alike. (`openat2` with `RESOLVE_BENEATH`
//!   would follow links that stay inside; two behaviours, one of them for old kernels, are not worth
//!   that.)
//! - Only regular files with one name are read or replaced: a second hard link may lie outside,
//!   devices and pipes do things when they are opened.
//! - A file is replaced whole or not at all: it is written beside, then renamed.
//! - Code may have closed a folder or file to its owner; the daemon opens it again.
//! - What is written does not make the workspace hold more than it may, nor fill the disk.
//! - What is made belongs to who owns the workspace, so that code in the sandbox, which may run as
//!   that user, can use it too.
//!
//! Deliberately absent: what a model is told about files (`builtin`), and waiting: everything here
//! blocks and runs on a thread that may.

mod change;
mod error;
mod folders;
mod foreign;
mod path;
mod read;
mod room;
mod stream;
mod sweep;
mod temporary;
mod version;
mod walk;
mod workspace;
mod write;

pub use error::WorkspaceError;
pub(crate) use folders::{NamesLock, WorkspaceFolders, is_workspace_name};
pub use foreign::{ATTACHMENTS, DOWNLOADS, UntrustedSource};
pub(crate) use foreign::{UNTRUSTED_RESULTS, record_folders, record_path};
pub use path::RelativePath;
pub use read::OpenFile;
pub use room::{Held, Room, Usage};
pub use stream::NewFile;
pub(crate) use sweep::sweep;
pub use version::{Expected, Version};
pub(crate) use walk::Listing;
pub use walk::{Entry, EntryKind};
pub use workspace::Workspace;
