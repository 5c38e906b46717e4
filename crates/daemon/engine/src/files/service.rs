//! Service for workspace files; works on blocking threads.

use agentd_core::parts::Detached;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use agentd_base::sha256;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};

use super::error::FileError;
use super::model::{MAX_FILE_BYTES, Part, RequestedRange, media_type, parse_range};
use crate::agents::Agents;
use crate::workspaces::{
    Entry, EntryKind, Expected, NewFile, RelativePath, Usage, Version, Workspace, WorkspaceError, WorkspaceQuota,
};

/// Size of write chunks.
const CHUNK_BYTES: usize = 256 << 10;
/// Number of bytes needed to detect an image.
const SIGNATURE_BYTES: usize = 16;

struct Inner {
    agents: Agents,
    quota: WorkspaceQuota,
}

/// Service for the files of agents' workspaces. Cheap to clone.
#[derive(Clone)]
pub struct Files(Arc<Inner>);

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("quota", &self.0.quota).finish_non_exhaustive()
    }
}

/// A page of a folder.
#[derive(Debug)]
pub(super) struct Folder {
    /// Normalized path.
    pub(super) path: String,
    pub(super) entries: Vec<Entry>,
    pub(super) total: usize,
    pub(super) left_out: usize,
    pub(super) usage: Usage,
}

/// An open file and its requested range.
#[derive(Debug)]
pub(super) struct OpenPart {
    pub(super) file: File,
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) version: Version,
    pub(super) media_type: &'static str,
    /// `None` for the whole file.
    pub(super) part: Option<Part>,
}

impl Files {
    /// `quota` provides sizes and limits of workspaces.
    pub fn new(agents: Agents, quota: WorkspaceQuota) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner { agents, quota })))
    }

    async fn with_workspace<T: Send + 'static>(
        &self,
        agent: &str,
        work: impl FnOnce(&Workspace, &WorkspaceQuota) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let agent = self.0.agents.get(agent).await?;
        let (agents, quota) = (self.0.agents.clone(), self.0.quota.clone());
        blocking(move || work(&Workspace::open(&agents.workspace(&agent)?)?, &quota)).await
    }

    /// Lists a folder: folders first, then by name.
    pub(super) async fn list(&self, agent: &str, path: &str, limit: usize, offset: usize) -> Result<Folder, FileError> {
        let path = RelativePath::parse(path)?;
        self.with_workspace(agent, move |workspace, quota| {
            let mut listing = workspace.list_all(&path)?;
            let is_file = |entry: &Entry| entry.kind != EntryKind::Folder;
            // Already sorted by name.
            listing.entries.sort_by_key(is_file);
            let total = listing.entries.len();
            let entries = listing.entries.into_iter().skip(offset).take(limit).collect();
            let path = if path == RelativePath::default() { String::new() } else { path.to_string() };
            Ok(Folder { path, entries, total, left_out: listing.left_out, usage: workspace.usage(quota)? })
        })
        .await
    }

    /// Returns an entry.
    pub(super) async fn entry(&self, agent: &str, path: &str) -> Result<Entry, FileError> {
        let path = RelativePath::parse(path)?;
        self.with_workspace(agent, move |workspace, _| Ok(workspace.entry(&path)?)).await
    }

    /// Opens a file for reading. `range` returns the `Range` header if it applies to this version.
    pub(super) async fn open(
        &self,
        agent: &str,
        path: &str,
        range: impl FnOnce(&Version) -> Option<String> + Send + 'static,
    ) -> Result<OpenPart, FileError> {
        let path = RelativePath::parse_file(path)?;
        self.with_workspace(agent, move |workspace, _| {
            let opened = workspace.open_file(&path)?;
            let (bytes, version) = (opened.bytes, opened.version);
            let part = match range(&version).map_or(RequestedRange::Whole, |range| parse_range(&range, bytes)) {
                RequestedRange::Whole => None,
                RequestedRange::Part(part) => Some(part),
                RequestedRange::Unsatisfiable => return Err(FileError::Range { bytes }),
            };
            let failed = |source| WorkspaceError::Io { path: path.to_string(), source };
            let (mut file, mut beginning) = (opened.into_file(), Vec::with_capacity(SIGNATURE_BYTES));
            (&mut file).take(SIGNATURE_BYTES as u64).read_to_end(&mut beginning).map_err(failed)?;
            file.seek(SeekFrom::Start(part.map_or(0, |part| part.start))).map_err(failed)?;
            Ok(OpenPart {
                file,
                name: path.name().to_owned(),
                bytes,
                version,
                media_type: media_type(&beginning),
                part,
            })
        })
        .await
    }

    /// Writes a file from a stream, atomically.
    pub(super) async fn write<E>(
        &self,
        agent: &str,
        path: &str,
        expected: Expected,
        mut body: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<Entry, FileError> {
        let path = RelativePath::parse_file(path)?;
        // Each file has one temporary file: leftovers of an aborted upload are replaced by the next.
        let mark = hex::encode(&sha256(path.to_string().as_bytes())[..12]);
        let (begun, known) = (path.clone(), expected.clone());
        let mut file = self
            .with_workspace(agent, move |workspace, quota| {
                // Checked before the upload, not only after it.
                workspace.require(&begun, &known)?;
                Ok(workspace.create(&begun, &mark, quota)?)
            })
            .await?;
        let (mut pending, mut received) = (BytesMut::new(), 0);
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(|_| FileError::BrokenBody)?;
            received += piece.len();
            if received > MAX_FILE_BYTES {
                let (bytes, limit) = (received as u64, MAX_FILE_BYTES as u64);
                return Err(WorkspaceError::TooLarge { path: path.to_string(), bytes, limit }.into());
            }
            pending.extend_from_slice(&piece);
            if pending.len() >= CHUNK_BYTES {
                file = append(file, pending.split().freeze()).await?;
            }
        }
        let file = append(file, pending.freeze()).await?;
        blocking(move || Ok(file.finish(&expected)?)).await
    }

    /// Creates a folder and its parents.
    pub(super) async fn create_folder(&self, agent: &str, path: &str) -> Result<Entry, FileError> {
        let path = RelativePath::parse(path)?;
        self.with_workspace(agent, move |workspace, quota| Ok(workspace.create_folder(&path, quota)?)).await
    }

    /// Moves an entry.
    pub(super) async fn rename(&self, agent: &str, from: &str, to: &str) -> Result<Entry, FileError> {
        let (from, to) = (RelativePath::parse(from)?, RelativePath::parse(to)?);
        self.with_workspace(agent, move |workspace, _| Ok(workspace.rename(&from, &to)?)).await
    }

    /// Removes an entry; a folder that is not empty only with `recursive`.
    pub(super) async fn remove(&self, agent: &str, path: &str, recursive: bool) -> Result<(), FileError> {
        let path = RelativePath::parse(path)?;
        self.with_workspace(agent, move |workspace, quota| Ok(workspace.remove(&path, recursive, quota)?)).await
    }
}

async fn append(mut file: NewFile, piece: Bytes) -> Result<NewFile, FileError> {
    if piece.is_empty() {
        return Ok(file);
    }
    blocking(move || {
        file.append(&piece)?;
        Ok(file)
    })
    .await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| FileError::BrokeOff)?
}
