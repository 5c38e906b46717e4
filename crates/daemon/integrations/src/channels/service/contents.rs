//! Completes a message before its turn: joins the parts of an album and fetches files into the workspace of the agent.
//! Platforms send the parts of an album as separate messages, possibly to several daemons.
//!
//! Invariants
//! - Each part of an album is a separate row until the first one takes over the others in one transaction. No part is
//!   in two messages, and a part that arrives later is a separate message.
//! - An album in a group is deleted if no part is addressed to the agent.
//! - Files are only fetched for trusted senders, and only if the channel's `attachments` is on.
//! - The path of a file is determined by its message, and files are written atomically. A retry, also after a kill,
//!   fetches only missing files.
//! - A file that cannot be fetched does not block the turn; the agent is told the reason.

use std::path::Path;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_chat_platforms::{Attachment, ChatPlatform, SendError};
use agentd_engine::agents::Agent;
use agentd_engine::tools::ToolError;
use agentd_store::{StoreError, Tx};

use super::{Channel, Channels};
use crate::channels::model::{ALBUM_PAUSE, ChannelMessage, FetchedFile, MAX_ALBUM_WAIT, MAX_FILE_BYTES, MAX_FILES};
use crate::channels::store;

/// Maximum duration of fetching a file.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// The state of an album when its first part is to be answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Album {
    /// All parts as one message.
    Joined(Box<ChannelMessage>),
    /// Further parts may come within this time.
    Incomplete(Duration),
    /// No part is addressed to the agent.
    Unaddressed,
}

/// Reason why a file was not fetched.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("the message has more than {MAX_FILES} files, and only the first {MAX_FILES} are fetched")]
    TooMany,
    #[error("{platform} does not provide the file")]
    NotHandedOut { platform: &'static str },
    #[error("the file exceeds {} MiB", MAX_FILE_BYTES >> 20)]
    TooLarge,
    #[error("the file did not arrive within {} seconds", FETCH_TIMEOUT.as_secs())]
    TooSlow,
    #[error(transparent)]
    Platform(#[from] SendError),
    #[error(transparent)]
    Workspace(#[from] ToolError),
}

impl Channels {
    /// Joins the parts of an album once no more are expected.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) async fn join_album(&self, first: &ChannelMessage) -> Result<Album, StoreError> {
        let first = first.clone();
        let work = async move |tx: &mut Tx| {
            let parts = store::list_album(tx, &first).await?;
            if let Some(wait) = remaining_wait(&parts, tx.clock().now()) {
                return Ok(Album::Incomplete(wait));
            }
            let parts = take_over(tx, &first, parts).await?;
            let ids: Vec<_> = parts.iter().map(|part| part.id.clone()).collect();
            match ChannelMessage::joined(parts) {
                // Another daemon changed it meanwhile; the rest is joined in the next attempt.
                Some(joined) if !store::update_joined(tx, &joined).await? => Ok(Album::Incomplete(ALBUM_PAUSE)),
                Some(joined) => Ok(Album::Joined(Box::new(joined))),
                None => {
                    for id in ids {
                        store::delete_part(tx, &id).await?;
                    }
                    Ok::<_, StoreError>(Album::Unaddressed)
                }
            }
        };
        self.0.context.db.write(work).await
    }

    /// Returns the results of fetching the message's files in order; empty if none are fetched.
    pub(crate) async fn fetch_files(
        &self,
        channel: &Channel,
        agent: &Agent,
        message: &ChannelMessage,
    ) -> Vec<FetchedFile> {
        if !channel.rules.attachments || !message.is_trusted || message.attachments.is_empty() {
            return Vec::new();
        }
        let workspace = match self.0.dependencies.agents.workspace(agent) {
            Ok(workspace) => workspace,
            Err(error) => return vec![FetchedFile::Failed(error.to_string()); message.attachments.len()],
        };
        let mut files = Vec::new();
        for (index, (attachment, path)) in message.attachments.iter().zip(message.file_paths()).enumerate() {
            let fetched = if index < MAX_FILES {
                let mark = format!("{}-{index}", message.id);
                let fetch = self.fetch_file(channel.adapter.as_ref(), attachment, &workspace, &path, &mark);
                tokio::time::timeout(FETCH_TIMEOUT, fetch).await.unwrap_or(Err(FileError::TooSlow))
            } else {
                Err(FileError::TooMany)
            };
            files.push(match fetched {
                Ok(()) => FetchedFile::At(path),
                Err(error) => {
                    tracing::info!(message = %message.id, %error, "failed to fetch chat platform file");
                    FetchedFile::Failed(error.to_string())
                }
            });
        }
        files
    }

    async fn fetch_file(
        &self,
        platform: &dyn ChatPlatform,
        attachment: &Attachment,
        workspace: &Path,
        path: &str,
        mark: &str,
    ) -> Result<(), FileError> {
        let tools = &self.0.dependencies.tools;
        if tools.has_file(workspace, path).await? {
            return Ok(());
        }
        let is_too_large = |bytes: Option<u64>| bytes.is_some_and(|bytes| bytes > MAX_FILE_BYTES);
        let name = platform.platform().id();
        let source = attachment.source.as_ref().ok_or(FileError::NotHandedOut { platform: name })?;
        if is_too_large(attachment.bytes) {
            return Err(FileError::TooLarge);
        }
        let mut incoming = platform.open_file(source).await?;
        if is_too_large(incoming.bytes()) {
            return Err(FileError::TooLarge);
        }
        let mut file = tools.create_file(workspace, path, mark).await?;
        let mut bytes = 0;
        while let Some(piece) = incoming.next().await? {
            bytes += piece.len() as u64;
            if bytes > MAX_FILE_BYTES {
                return Err(FileError::TooLarge);
            }
            file = file.append(piece).await?;
        }
        Ok(file.finish().await?)
    }
}

/// Takes over the other parts that are still pending. Takes none if no part is addressed to the agent.
async fn take_over(
    tx: &mut Tx,
    first: &ChannelMessage,
    parts: Vec<ChannelMessage>,
) -> Result<Vec<ChannelMessage>, StoreError> {
    if !parts.iter().any(|part| part.is_addressed) {
        return Ok(parts);
    }
    let mut taken = Vec::new();
    for part in parts {
        if part.id == first.id || store::complete_part(tx, &part.id).await? {
            taken.push(part);
        }
    }
    Ok(taken)
}

/// Time to wait for further parts.
fn remaining_wait(parts: &[ChannelMessage], now: Timestamp) -> Option<Duration> {
    let times = || parts.iter().map(|part| part.received_at);
    let complete_at = (times().max()? + ALBUM_PAUSE).min(times().min()? + MAX_ALBUM_WAIT);
    (now < complete_at).then(|| complete_at.since(now))
}
