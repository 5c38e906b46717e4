//! Errors of workspace operations; models read the messages.

use std::io;

use agentd_sandbox::folder::Shortage;

#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("the path {problem}")]
    BadPath { problem: &'static str },
    #[error("`{path}` not found in the workspace")]
    Missing { path: String },
    #[error("`{path}` is a folder")]
    IsFolder { path: String },
    #[error("`{path}` is not a folder")]
    NoFolder { path: String },
    #[error("`{path}` is a symbolic link, which is not followed; use the path of its target")]
    Link { path: String },
    #[error("`{path}` has several hard links, one of which may be outside the workspace; copy the file first")]
    ManyNames { path: String },
    #[error("`{path}` is a device, a pipe or a socket, not a file")]
    Special { path: String },
    #[error("`{path}` is too large ({bytes} bytes, limit {limit}); process it with a program")]
    TooLarge { path: String, bytes: u64, limit: u64 },
    #[error(
        "workspace file limit reached ({limit} files and folders, `workspace_max_files` of the sandbox settings); \
         delete files first"
    )]
    TooManyFiles { limit: u64 },
    #[error(
        "workspace size limit reached ({limit_mb} MB, `workspace_limit_mb` of the sandbox settings); delete files first"
    )]
    Full { limit_mb: u64 },
    #[error("{0}; free space on the disk of the data directory")]
    DiskShort(Shortage),
    #[error("`{path}` already exists; choose another name, or delete it first")]
    Taken { path: String },
    #[error("`{path}` already exists; read it, and write it with the version that you read")]
    Exists { path: String },
    #[error("`{path}` was changed or deleted in the meantime; read it again before writing it")]
    Changed { path: String },
    #[error("`{path}` is not empty; set `recursive` to delete its content as well")]
    NotEmpty { path: String },
    #[error("file `{path}` is being modified by another request; retry")]
    WrittenByOthers { path: String },
    #[error("failed to access `{path}`: {source}")]
    Io { path: String, source: io::Error },
}
