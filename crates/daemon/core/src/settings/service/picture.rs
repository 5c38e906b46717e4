//! The owner's picture, a file beside a setting: the setting decides which file is shown.

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
    /// Stores a picture and shows it; the one before is removed. Answers its address.
    ///
    /// # Errors
    /// `Invalid` when the bytes are no picture, or it cannot be stored.
    pub async fn set_avatar(&self, bytes: Bytes, recorder: Recorder<String>) -> Result<String, SettingsError> {
        let Some(kind) = PictureKind::of(&bytes) else {
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
                self.put_in_force(written).await;
                Ok(url)
            }
            Err(error) => {
                if is_definite(&error) {
                    avatar::remove(&folder, &file).await;
                }
                Err(error)
            }
        }
    }

    /// One picture at a time, and beside the threads that serve requests.
    async fn decode(&self, kind: PictureKind, bytes: Bytes) -> Result<(), SettingsError> {
        let turn = Arc::clone(&self.0.decoding).lock_owned().await;
        let decoded = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            kind.decode(&bytes)
        });
        // What a decoder panics at is no picture either.
        let decoded = decoded.await.unwrap_or_else(|_| Err("cannot be decoded".to_owned()));
        decoded.map_err(|message| SettingsError::field("file", message))
    }

    /// The bytes of a picture and their media type.
    ///
    /// # Errors
    /// `AvatarNotFound`, also for every name that is not one of ours.
    pub async fn read_avatar(&self, file: &str) -> Result<(Vec<u8>, &'static str), SettingsError> {
        let kind = avatar::kind_of_name(file).ok_or(SettingsError::AvatarNotFound)?;
        match tokio::fs::read(self.0.data_dir.avatars().join(file)).await {
            Ok(bytes) => Ok((bytes, kind.media_type())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(SettingsError::AvatarNotFound),
            Err(error) => Err(SettingsError::AvatarFile(error)),
        }
    }
}

/// Whether nothing was changed for certain. A database that went away may have committed all the
/// same, and would then name a file that is not there.
fn is_definite(error: &SettingsError) -> bool {
    !matches!(error, SettingsError::Store(StoreError::Unavailable { .. } | StoreError::Closed))
}
