//! Blocking work on separate threads.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use crate::backup::archive::{self, PipeReader, PipeWriter, Source, Unpacked};
use crate::backup::error::BackupError;

/// Time without data after which an incoming archive is abandoned.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn write(source: Source, mut sink: PipeWriter) {
    let outcome = archive::write(source, &mut sink);
    if let Err(error) = &outcome {
        tracing::warn!(%error, "backup stream aborted");
    }
    sink.finish(outcome);
}

pub(super) async fn unpack<S, E>(archive: S, folder: &Path) -> Result<Unpacked, BackupError>
where
    S: Stream<Item = Result<Bytes, E>> + Send + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    let (sender, source) = PipeReader::new();
    let feeder = tokio::spawn(async move {
        let mut archive = std::pin::pin!(archive);
        loop {
            let chunk = match tokio::time::timeout(STALL_TIMEOUT, archive.next()).await {
                Ok(Some(chunk)) => chunk.map_err(io::Error::other),
                Ok(None) => break,
                Err(_) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it stopped coming")),
            };
            let is_last = chunk.is_err();
            // A closed receiver means that an error was found.
            if sender.send(chunk).await.is_err() || is_last {
                break;
            }
        }
    });
    let folder = folder.to_path_buf();
    let unpacked = blocking(move || archive::unpack(source, &folder)).await;
    feeder.abort();
    unpacked
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(BackupError::files("a part of the archive")(io::Error::other(error))))
}
