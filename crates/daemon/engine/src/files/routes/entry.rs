//! One file or directory: how a request names it, and how an answer shows it.

use agentd_base::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::workspaces::{Entry, EntryKind, Version};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PathQuery {
    /// In the workspace: names with `/` between them, none of them `..`.
    #[param(min_length = 1, max_length = 4096, example = "reports/june.md")]
    pub(super) path: String,
}

/// What is there.
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
    name: String,
    /// In the workspace, as the other operations take it.
    path: String,
    kind: AgentFileKind,
    /// Of a file.
    #[schema(required)]
    size_bytes: Option<u64>,
    modified_at: Timestamp,
    /// Of a file: what `If-Match` takes.
    #[schema(required)]
    etag: Option<String>,
    /// Of a link: what it says, which may be anything.
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

/// As an `ETag` says it.
pub(super) fn quoted(version: &Version) -> String {
    format!("\"{version}\"")
}
