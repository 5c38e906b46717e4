//! Uploading archives.

use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use super::{Backups, remaining_space};
use crate::backup::archive::{read_manifest, sha256_of, verify};
use crate::backup::error::BackupError;
use crate::backup::kept::{Partial, StoredArchive};
use crate::backup::service::{STALL_TIMEOUT, blocking};
use crate::backup::settings::BackupSettings;

impl Backups {
    /// Stores an uploaded archive after it was read completely and all hashes matched. Its name is derived from its
    /// content, so repeated uploads are stored once.
    ///
    /// # Errors
    /// The archive is invalid; `Uploading`, `TooMany`, `Full`, or the disk fails.
    pub(crate) async fn upload<S, E>(&self, archive: S) -> Result<StoredArchive, BackupError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send,
    {
        let _only_one = self.uploads.try_acquire().map_err(|_| BackupError::Uploading)?;
        let (folder, settings) = (self.folder()?, self.settings.get::<BackupSettings>().await?);
        let space = remaining_space(&self.list().await?, &settings, false)?;
        let mut partial = Partial::create(&folder, &self.context.ids.next_ulid(), space)?;
        let mut archive = std::pin::pin!(archive);
        loop {
            let chunk = match tokio::time::timeout(STALL_TIMEOUT, archive.next()).await {
                Ok(Some(Ok(chunk))) => chunk,
                Ok(None) => break,
                Ok(Some(Err(_))) | Err(_) => return Err(BackupError::archive("it did not come whole")),
            };
            partial.write(&chunk).await?;
        }
        let (whole, beginning) = (partial.reopen().await?, partial.reopen().await?);
        let again = partial.reopen().await?;
        let checking = move || {
            let summary = verify(whole)?;
            // The list only reads this part, so it must be readable.
            read_manifest(beginning)?;
            let hash = sha256_of(again).map_err(BackupError::files("the backup"))?;
            let hash = hash.get(..12).unwrap_or_default();
            Ok(StoredArchive::uploaded_name(summary.manifest.created_at, hash))
        };
        let name = blocking(checking).await?;
        let kept = self.keep(partial, name, false).await?;
        tracing::info!(name = kept.name, "backup uploaded");
        Ok(kept)
    }
}
