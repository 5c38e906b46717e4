//! Taking an archive from elsewhere.

use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use super::{Backups, room_among};
use crate::backup::archive::{read_manifest, sha256_of, verify};
use crate::backup::error::BackupError;
use crate::backup::kept::{KeptArchive, Partial};
use crate::backup::service::{STALLED_AFTER, blocking};
use crate::backup::settings::BackupSettings;

impl Backups {
    /// Takes an archive, which is kept once all of it was read and every hash agreed. Its name is made of what is in
    /// it, so that the same one is kept once.
    ///
    /// # Errors
    /// It is not whole or not one; `Uploading`, `TooMany`, `Full`, or the disk's.
    pub(crate) async fn upload<S, E>(&self, archive: S) -> Result<KeptArchive, BackupError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send,
    {
        let _only_one = self.uploads.try_acquire().map_err(|_| BackupError::Uploading)?;
        let (folder, settings) = (self.folder()?, self.settings.get::<BackupSettings>().await?);
        let room = room_among(&self.list().await?, &settings, false)?;
        let mut partial = Partial::create(&folder, &self.context.ids.next_ulid(), room)?;
        let mut archive = std::pin::pin!(archive);
        loop {
            let chunk = match tokio::time::timeout(STALLED_AFTER, archive.next()).await {
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
            // The list reads no further than this, and must find it.
            read_manifest(beginning)?;
            let hash = sha256_of(again).map_err(BackupError::files("the backup"))?;
            let hash = hash.get(..12).unwrap_or_default();
            Ok(KeptArchive::uploaded_name(summary.manifest.created_at, hash))
        };
        let name = blocking(checking).await?;
        let kept = self.keep(partial, name, false).await?;
        tracing::info!(name = kept.name, "a backup was uploaded");
        Ok(kept)
    }
}
