//! Avatar of the owner. The setting `avatar_url` refers to the current file.

use std::sync::Arc;

use agentd_store::{Recorder, StoreError, Tx};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::Settings;
use super::change::{Origin, SettingsChange, write_all};
use crate::settings::avatar::{self, PictureKind};
use crate::settings::error::SettingsError;
use crate::settings::section::Registered;
use crate::settings::{AVATAR_PATH, ProfileSettings};

impl Settings {
    /// Stores a picture as the avatar and removes the previous one. Returns its URL.
    ///
    /// # Errors
    /// `Invalid` if the bytes are not a supported picture, `AvatarFile` or `Store` if it cannot be stored.
    pub async fn set_avatar(&self, bytes: Bytes, recorder: Recorder<String>) -> Result<String, SettingsError> {
        let Some(kind) = PictureKind::detect(&bytes) else {
            return Err(SettingsError::field("file", "must be a picture: PNG, JPEG, GIF or WebP"));
        };
        self.decode(kind, bytes.clone()).await?;
        let folder = self.0.data_dir.avatars();
        self.0.data_dir.make_folder(&folder).map_err(SettingsError::AvatarFile)?;
        let file = avatar::store(&folder, kind, &bytes, &self.0.entropy).await.map_err(SettingsError::AvatarFile)?;
        let url = format!("{AVATAR_PATH}{file}");
        let section = Registered::of::<ProfileSettings>();
        let change = section.check(Map::from_iter([("avatar_url".to_owned(), Value::from(url.clone()))]));
        let (vault, recorded) = (self.0.vault.clone(), url.clone());
        let changes = [SettingsChange { section, change }];
        let work = async move |tx: &mut Tx| {
            let written = write_all(tx, &vault, &changes, Origin::Owner).await?;
            recorder.record(tx, &recorded).await?;
            Ok::<_, SettingsError>(written)
        };
        match self.0.db.write(work).await {
            Ok(written) => {
                self.apply_committed(written).await;
                Ok(url)
            }
            Err(error) => {
                if is_certainly_uncommitted(&error) {
                    avatar::remove(&folder, &file).await;
                }
                Err(error)
            }
        }
    }

    /// Decodes a picture on a blocking thread, one at a time.
    async fn decode(&self, kind: PictureKind, bytes: Bytes) -> Result<(), SettingsError> {
        let permit = Arc::clone(&self.0.decoding).lock_owned().await;
        let decoded = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            kind.decode(&bytes)
        });
        // A panic of the decoder counts as an invalid picture.
        let decoded = decoded.await.unwrap_or_else(|_| Err("cannot be decoded".to_owned()));
        decoded.map_err(|message| SettingsError::field("file", message))
    }

    /// Returns the bytes of a picture and its media type.
    ///
    /// # Errors
    /// `AvatarNotFound` if the file does not exist or the name is not that of an avatar.
    pub async fn read_avatar(&self, file: &str) -> Result<(Vec<u8>, &'static str), SettingsError> {
        let kind = avatar::kind_of_file_name(file).ok_or(SettingsError::AvatarNotFound)?;
        match tokio::fs::read(self.0.data_dir.avatars().join(file)).await {
            Ok(bytes) => Ok((bytes, kind.media_type())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(SettingsError::AvatarNotFound),
            Err(error) => Err(SettingsError::AvatarFile(error)),
        }
    }
}

/// Whether the transaction was certainly not committed. If the database became unavailable, it may have been, and the
/// setting would then refer to a removed file.
fn is_certainly_uncommitted(error: &SettingsError) -> bool {
    !matches!(error, SettingsError::Store(StoreError::Unavailable { .. } | StoreError::Closed))
}
