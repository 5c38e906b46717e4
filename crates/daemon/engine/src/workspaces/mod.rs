//! Workspaces: the folders in which agents work. A [`Workspace`] is accessed through an open handle; no path can leave
//! it. [`WorkspaceFolders`] creates and removes the folders.
//!
//! Invariants
//! - A path is resolved one name at a time. Each name is opened relative to the handle of its parent and never through
//!   a symbolic link. The opened file is therefore the checked file, even if entries are renamed, swapped or linked
//!   concurrently, on every kernel. (`openat2` with `RESOLVE_BENEATH` would follow links that stay inside; a second
//!   behaviour for old kernels is not worth it.)
//! - Only regular files with one name are read or replaced: another hard link may be outside, and opening devices and
//!   pipes has side effects.
//! - Files are replaced atomically: written under a temporary name, then renamed.
//! - Code may have removed permissions of a folder or file; the daemon restores them.
//! - Writes cannot exceed the quota of the workspace or fill the disk.
//! - New entries belong to the owner of the workspace, so that sandboxed code, which may run as that user, can use
//!   them.
//!
//! Out of scope: texts for models (`builtin`), and async code: all functions block and must run on blocking threads.

mod change;
mod error;
mod folders;
mod path;
mod quota;
mod read;
mod untrusted;

mod stream;
mod sweep;
mod temporary;
mod version;
mod walk;
mod workspace;
mod write;

pub use error::WorkspaceError;
pub(crate) use folders::{NamesLock, WorkspaceFolders, is_workspace_name};
pub use path::RelativePath;
pub use quota::{Usage, WorkspaceQuota, WorkspaceSize};
pub use read::OpenFile;
pub use stream::NewFile;
pub(crate) use sweep::sweep;
pub use untrusted::{ATTACHMENTS, DOWNLOADS, UntrustedSource};
pub(crate) use untrusted::{UNTRUSTED_RESULTS, record_folders, record_path};
pub use version::{Expected, Version};
pub(crate) use walk::Listing;
pub use walk::{Entry, EntryKind};
pub use workspace::Workspace;
