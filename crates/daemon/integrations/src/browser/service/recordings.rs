//! Starting, stopping, listing, reading and deleting recordings.

use agentd_base::{Problems, Secret};
use agentd_browser::Recorder;
use agentd_core::vault::{SealedUrl, UnknownMask};

use super::Browser;
use super::recording::blocking;
use crate::browser::error::BrowserError;
use crate::browser::files::RecordingFiles;
use crate::browser::model::{RecordingHeader, RecordingId, RecordingSummary, StoredStep};

impl Browser {
    /// Starts a recording.
    ///
    /// # Errors
    /// The name has no visible characters, a recording is running, there are too many, or the disk fails.
    pub async fn start_recording(&self, name: String) -> Result<RecordingSummary, BrowserError> {
        let mut problems = Problems::new();
        let is_shown = !name.trim().is_empty() && !name.chars().any(char::is_control);
        problems.require(is_shown, "name", "must not be blank or contain control characters");
        problems.into_result()?;
        let recording_id = RecordingId::generate(&self.0.context.ids);
        let header = RecordingHeader { format: RecordingHeader::FORMAT, recording_id, name, started_at: self.now() };
        let session = self.running().ok();
        let recorder = Recorder::new(session.as_ref().map(|session| session.context()), credentials_in);
        self.0.recordings.start(header, recorder).await
    }

    /// Stops the recording. Actions in progress are not included.
    ///
    /// # Errors
    /// No recording is running.
    pub async fn stop_recording(&self) -> Result<RecordingSummary, BrowserError> {
        self.0.recordings.stop(self.now()).await
    }

    /// Returns all recordings, newest first.
    ///
    /// # Errors
    /// The recordings cannot be read.
    pub async fn recordings(&self) -> Result<Vec<RecordingSummary>, BrowserError> {
        let files = self.0.recordings.files.clone();
        let mut all = blocking(move || files.list()).await?;
        if let Some(running) = self.0.recordings.running_summary().await {
            let listed = all.iter_mut().find(|one| one.header.recording_id == running.header.recording_id);
            listed.into_iter().for_each(|one| running.clone_into(one));
        }
        Ok(all)
    }

    /// Returns a recording with its steps.
    ///
    /// # Errors
    /// The recording does not exist or cannot be read.
    pub async fn recording(&self, id: &RecordingId) -> Result<(RecordingSummary, Vec<StoredStep>), BrowserError> {
        let (files, wanted) = (self.0.recordings.files.clone(), id.clone());
        let read = blocking(move || files.read(&wanted)).await?;
        let (summary, steps) = read.ok_or(BrowserError::RecordingNotFound)?;
        let running = self.0.recordings.running_summary().await.filter(|running| running.header.recording_id == *id);
        Ok((running.unwrap_or(summary), steps))
    }

    /// Returns a small JPEG of the page after a step.
    ///
    /// # Errors
    /// The picture does not exist or cannot be read.
    pub async fn recorded_picture(&self, id: &RecordingId, index: u32) -> Result<Vec<u8>, BrowserError> {
        let (files, id) = (self.0.recordings.files.clone(), id.clone());
        blocking(move || files.picture(&id, index)).await?.ok_or(BrowserError::RecordingNotFound)
    }

    /// Deletes a recording.
    ///
    /// # Errors
    /// The recording does not exist, is running, or cannot be deleted.
    pub async fn delete_recording(&self, id: &RecordingId) -> Result<(), BrowserError> {
        let running = self.0.recordings.running_summary().await;
        if running.is_some_and(|running| running.header.recording_id == *id) {
            return Err(BrowserError::RecordingRunning);
        }
        let (files, id) = (self.0.recordings.files.clone(), id.clone());
        if blocking(move || files.delete(&id)).await? { Ok(()) } else { Err(BrowserError::RecordingNotFound) }
    }

    pub(super) fn recording_files(&self) -> RecordingFiles {
        self.0.recordings.files.clone()
    }

    /// Returns the path of the steps file, relative to the data directory.
    #[must_use]
    pub fn recording_path(&self, id: &RecordingId) -> String {
        self.0.recordings.files.relative_path(id)
    }

    /// Returns the path of a step's picture, relative to the data directory.
    #[must_use]
    pub fn recorded_picture_path(&self, id: &RecordingId, index: u32) -> String {
        self.0.recordings.files.relative_picture_path(id, index)
    }
}

/// Returns the credentials in a URL, in their encoded form.
fn credentials_in(url: &str) -> Vec<Secret> {
    let sealed = SealedUrl::new(url, None, UnknownMask::Leave);
    sealed.map(|sealed| sealed.secrets.into_iter().filter_map(|(_, secret)| secret).collect()).unwrap_or_default()
}
