//! Errors of workspace operations; models read the messages.

use std::io;

use agentd_sandbox::folder::Shortage;

#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("the path {problem}")]
    BadPath { problem: &'static str },
    #[error("there is no `{path}` in the workspace")]
    Missing { path: String },
    #[error("`{path}` is a folder")]
    IsFolder { path: String },
    #[error("`{path}` is no folder")]
    NoFolder { path: String },
    #[error("`{path}` is a symbolic link, which is not followed; name the file that it points to")]
    Link { path: String },
    #[error("`{path}` has several names (hard links), one of which may lie outside the workspace; copy it first")]
    ManyNames { path: String },
    #[error("`{path}` is a device, a pipe or a socket, and no file")]
    Special { path: String },
    #[error("`{path}` is {bytes} bytes long, more than the {limit} that can be handled; use a program for it")]
    TooLarge { path: String, bytes: u64, limit: u64 },
    #[error(
        "the workspace holds {limit} files and folders, the most that it may (`workspace_max_files` of the sandbox settings); remove some before you make others"
    )]
    TooManyFiles { limit: u64 },
    #[error(
        "the workspace would hold more than the {limit_mb} MB that it may (`workspace_limit_mb` of the sandbox settings); remove files before you write more"
    )]
    Full { limit_mb: u64 },
    #[error("{0}; make room on the disk that holds the data directory before you write more")]
    DiskShort(Shortage),
    #[error("`{path}` is there already; choose another name, or remove it first")]
    Taken { path: String },
    #[error("`{path}` is there already; read it, and write it with the version that you read")]
    Exists { path: String },
    #[error("`{path}` was changed or removed in the meantime; read it again before you write it")]
    Changed { path: String },
    #[error("`{path}` is not empty; `recursive` removes what is in it, too")]
    NotEmpty { path: String },
    #[error("file `{path}` is being modified by another request; retry")]
    WrittenByOthers { path: String },
    #[error("`{path}` cannot be used: {source}")]
    Io { path: String, source: io::Error },
}
