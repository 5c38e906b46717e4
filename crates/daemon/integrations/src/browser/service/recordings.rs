//! Recordings: started, stopped, listed, read and deleted.

use agentd_base::{Problems, Secret};
use agentd_browser::Recorder;
use agentd_core::vault::{SealedUrl, UnknownMask};

use super::Browser;
use super::recording::blocking;
use crate::browser::error::BrowserError;
use crate::browser::files::RecordingFiles;
use crate::browser::model::{KeptStep, RecordingHeader, RecordingId, RecordingSummary};

impl Browser {
    /// Begins to record.
    ///
    /// # Errors
    /// The name shows nothing, a recording runs, there are too many, or the disk does not take it.
    pub async fn start_recording(&self, name: String) -> Result<RecordingSummary, BrowserError> {
        let mut problems = Problems::new();
        let is_shown = !name.trim().is_empty() && !name.chars().any(char::is_control);
        problems.require(is_shown, "name", "must have a visible character, and none that is a line break or the like");
        problems.into_result()?;
        let recording_id = RecordingId::generate(&self.0.context.ids);
        let header = RecordingHeader { format: RecordingHeader::FORMAT, recording_id, name, started_at: self.now() };
        let session = self.running().ok();
        let recorder = Recorder::new(session.as_ref().map(|session| session.context()), credentials_in);
        self.0.recordings.start(header, recorder).await
    }

    /// Ends the recording. What is under way is not in it.
    ///
    /// # Errors
    /// None runs.
    pub async fn stop_recording(&self) -> Result<RecordingSummary, BrowserError> {
        self.0.recordings.stop(self.now()).await
    }

    /// The newest first.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn recordings(&self) -> Result<Vec<RecordingSummary>, BrowserError> {
        let files = self.0.recordings.files.clone();
        let mut all = blocking(move || files.list()).await?;
        if let Some(present) = self.0.recordings.present().await {
            let listed = all.iter_mut().find(|one| one.header.recording_id == present.header.recording_id);
            listed.into_iter().for_each(|one| present.clone_into(one));
        }
        Ok(all)
    }

    /// With its steps.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub async fn recording(&self, id: &RecordingId) -> Result<(RecordingSummary, Vec<KeptStep>), BrowserError> {
        let (files, wanted) = (self.0.recordings.files.clone(), id.clone());
        let read = blocking(move || files.read(&wanted)).await?;
        let (summary, steps) = read.ok_or(BrowserError::NoRecording)?;
        let present = self.0.recordings.present().await.filter(|present| present.header.recording_id == *id);
        Ok((present.unwrap_or(summary), steps))
    }

    /// What the page looked like after a step; a small JPEG.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub async fn recorded_picture(&self, id: &RecordingId, index: u32) -> Result<Vec<u8>, BrowserError> {
        let (files, id) = (self.0.recordings.files.clone(), id.clone());
        blocking(move || files.picture(&id, index)).await?.ok_or(BrowserError::NoRecording)
    }

    /// # Errors
    /// There is none, it is the one that runs, or it cannot be removed.
    pub async fn delete_recording(&self, id: &RecordingId) -> Result<(), BrowserError> {
        let present = self.0.recordings.present().await;
        if present.is_some_and(|present| present.header.recording_id == *id) {
            return Err(BrowserError::RecordingRuns);
        }
        let (files, id) = (self.0.recordings.files.clone(), id.clone());
        if blocking(move || files.delete(&id)).await? { Ok(()) } else { Err(BrowserError::NoRecording) }
    }

    pub(super) fn recording_files(&self) -> RecordingFiles {
        self.0.recordings.files.clone()
    }

    /// Where the file with its steps is, below the data directory.
    #[must_use]
    pub fn recording_path(&self, id: &RecordingId) -> String {
        self.0.recordings.files.path_of(id)
    }

    /// Where the picture of a step is, below the data directory.
    #[must_use]
    pub fn recorded_picture_path(&self, id: &RecordingId, index: u32) -> String {
        self.0.recordings.files.picture_path_of(id, index)
    }
}

/// The credentials in an address, as they stand there.
fn credentials_in(url: &str) -> Vec<Secret> {
    let sealed = SealedUrl::new(url, None, UnknownMask::Leave);
    sealed.map(|sealed| sealed.secrets.into_iter().filter_map(|(_, secret)| secret).collect()).unwrap_or_default()
}
