//! Working in a workspace, on threads that may block.

use agentd_core::parts::Detached;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use agentd_base::sha256;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};

use super::error::FileError;
use super::model::{MAX_FILE_BYTES, Part, Wanted, media_type, wanted};
use crate::agents::Agents;
use crate::workspaces::{
    Entry, EntryKind, Expected, NewFile, RelativePath, Room, Usage, Version, Workspace, WorkspaceError,
};

/// What is written at a time.
const PIECE_BYTES: usize = 256 << 10;
/// By so many bytes a picture is known.
const BEGINNING: usize = 16;

struct Inner {
    agents: Agents,
    room: Room,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Files(Arc<Inner>);

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("room", &self.0.room).finish_non_exhaustive()
    }
}

/// What lies in a folder, in part.
#[derive(Debug)]
pub(super) struct Folder {
    /// As it is spelt.
    pub(super) path: String,
    pub(super) entries: Vec<Entry>,
    pub(super) total: usize,
    pub(super) left_out: usize,
    pub(super) usage: Usage,
}

/// A file that is open, and the part of it that was asked for.
#[derive(Debug)]
pub(super) struct OpenPart {
    pub(super) file: File,
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) version: Version,
    pub(super) media_type: &'static str,
    /// `None` for the whole.
    pub(super) part: Option<Part>,
}

impl Files {
    /// `room` knows what workspaces hold and may hold.
    pub fn new(agents: Agents, room: Room) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner { agents, room })))
    }

    async fn within<T: Send + 'static>(
        &self,
        agent: &str,
        work: impl FnOnce(&Workspace, &Room) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let agent = self.0.agents.get(agent).await?;
        let (agents, room) = (self.0.agents.clone(), self.0.room.clone());
        blocking(move || work(&Workspace::open(&agents.workspace(&agent)?)?, &room)).await
    }

    /// What lies in a folder: folders first, then by name.
    pub(super) async fn list(&self, agent: &str, path: &str, limit: usize, offset: usize) -> Result<Folder, FileError> {
        let path = RelativePath::parse(path)?;
        self.within(agent, move |workspace, room| {
            let mut listing = workspace.list_all(&path)?;
            let is_file = |entry: &Entry| entry.kind != EntryKind::Folder;
            // It comes sorted by name.
            listing.entries.sort_by_key(is_file);
            let total = listing.entries.len();
            let entries = listing.entries.into_iter().skip(offset).take(limit).collect();
            let path = if path == RelativePath::default() { String::new() } else { path.to_string() };
            Ok(Folder { path, entries, total, left_out: listing.left_out, usage: workspace.usage(room)? })
        })
        .await
    }

    /// What a path stands for.
    pub(super) async fn entry(&self, agent: &str, path: &str) -> Result<Entry, FileError> {
        let path = RelativePath::parse(path)?;
        self.within(agent, move |workspace, _| Ok(workspace.entry(&path)?)).await
    }

    /// Opens a file for reading. `range` is what a `Range` header says, where it counts for this version.
    pub(super) async fn open(
        &self,
        agent: &str,
        path: &str,
        range: impl FnOnce(&Version) -> Option<String> + Send + 'static,
    ) -> Result<OpenPart, FileError> {
        let path = RelativePath::parse_file(path)?;
        self.within(agent, move |workspace, _| {
            let opened = workspace.open_file(&path)?;
            let (bytes, version) = (opened.bytes, opened.version);
            let part = match range(&version).map_or(Wanted::Whole, |range| wanted(&range, bytes)) {
                Wanted::Whole => None,
                Wanted::Part(part) => Some(part),
                Wanted::Nothing => return Err(FileError::Range { bytes }),
            };
            let failed = |source| WorkspaceError::Io { path: path.to_string(), source };
            let (mut file, mut beginning) = (opened.into_file(), Vec::with_capacity(BEGINNING));
            (&mut file).take(BEGINNING as u64).read_to_end(&mut beginning).map_err(failed)?;
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

    /// Writes a file as it comes: whole or not at all.
    pub(super) async fn write<E>(
        &self,
        agent: &str,
        path: &str,
        expected: Expected,
        mut body: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<Entry, FileError> {
        let path = RelativePath::parse_file(path)?;
        // One file has one unfinished state: what an upload that was cut off left goes with the next.
        let mark = hex::encode(&sha256(path.to_string().as_bytes())[..12]);
        let (begun, known) = (path.clone(), expected.clone());
        let mut file = self
            .within(agent, move |workspace, room| {
                // Better now than after all of it was sent.
                workspace.require(&begun, &known)?;
                Ok(workspace.create(&begun, &mark, room)?)
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
            if pending.len() >= PIECE_BYTES {
                file = append(file, pending.split().freeze()).await?;
            }
        }
        let file = append(file, pending.freeze()).await?;
        blocking(move || Ok(file.finish(&expected)?)).await
    }

    /// Makes a folder, and those on the way.
    pub(super) async fn create_folder(&self, agent: &str, path: &str) -> Result<Entry, FileError> {
        let path = RelativePath::parse(path)?;
        self.within(agent, move |workspace, room| Ok(workspace.create_folder(&path, room)?)).await
    }

    /// Gives something another path.
    pub(super) async fn rename(&self, agent: &str, from: &str, to: &str) -> Result<Entry, FileError> {
        let (from, to) = (RelativePath::parse(from)?, RelativePath::parse(to)?);
        self.within(agent, move |workspace, _| Ok(workspace.rename(&from, &to)?)).await
    }

    /// Removes something; a folder that is not empty only with all that is in it.
    pub(super) async fn remove(&self, agent: &str, path: &str, recursive: bool) -> Result<(), FileError> {
        let path = RelativePath::parse(path)?;
        self.within(agent, move |workspace, room| Ok(workspace.remove(&path, recursive, room)?)).await
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
