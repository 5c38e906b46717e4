//! Path parameters and views of files and directories.

use agentd_base::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::workspaces::{Entry, EntryKind, Version};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PathQuery {
    /// Path in the workspace, 1 to 4,096 characters: names separated by `/`, without `..`.
    #[param(min_length = 1, max_length = 4096, example = "reports/june.md")]
    pub(super) path: String,
}

/// Kind of an entry.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum AgentFileKind {
    File,
    Directory,
    /// A symbolic link, which is not followed.
    Link,
    /// A device, a pipe or a socket.
    Other,
}

/// A file or a directory of a workspace.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AgentFile {
    /// Last part of `path`.
    name: String,
    /// Path in the workspace, as accepted by the other operations.
    path: String,
    /// Kind of the entry.
    kind: AgentFileKind,
    /// Size of a file in bytes; null for other kinds.
    #[schema(required)]
    size_bytes: Option<u64>,
    /// Time of the last modification.
    modified_at: Timestamp,
    /// Version of a file for `If-Match`, `If-None-Match` and `If-Range`; null for other kinds.
    #[schema(required)]
    etag: Option<String>,
    /// Target of a link as stored, up to 200 characters; it may not exist. Null for other kinds.
    #[schema(required)]
    target: Option<String>,
}

impl From<Entry> for AgentFile {
    fn from(entry: Entry) -> Self {
        let (kind, size_bytes, target) = match entry.kind {
            EntryKind::File { bytes, .. } => (AgentFileKind::File, Some(bytes), None),
            EntryKind::Folder => (AgentFileKind::Directory, None, None),
            EntryKind::Link { target } => (AgentFileKind::Link, None, Some(target)),
            EntryKind::Other => (AgentFileKind::Other, None, None),
        };
        Self {
            name: entry.path.name().to_owned(),
            path: entry.path.to_string(),
            kind,
            size_bytes,
            modified_at: Timestamp::from_micros(entry.version.modified_us()),
            etag: size_bytes.map(|_| quoted(&entry.version)),
            target,
        }
    }
}

/// Formats a version as an `ETag`.
pub(super) fn quoted(version: &Version) -> String {
    format!("\"{version}\"")
}
