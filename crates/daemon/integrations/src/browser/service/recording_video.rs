//! Videos of recordings.

use std::io;
use std::time::Duration;

use agentd_browser::{VideoError, VideoOptions};
use tokio::task::spawn_blocking;

use super::Browser;
use super::screen_recording::{MAX_VIDEO_BYTES, Video, into_video};
use crate::browser::error::BrowserError;
use crate::browser::files::RecordingFiles;
use crate::browser::model::{RecordingId, StoredStep};

/// Minimum and maximum time for which a step is shown; otherwise until the next one began.
const MIN_STEP_MS: u64 = 1_000;
const MAX_STEP_MS: u64 = 3_000;

impl Browser {
    /// Creates a video that shows the page after each step with a caption. Cancelled when the caller is dropped.
    ///
    /// # Errors
    /// The recording does not exist or has no pictures, another video is being created, or encoding fails.
    pub async fn recording_video(&self, id: &RecordingId) -> Result<Video, BrowserError> {
        let _permit = self.0.permits.video()?;
        let (_, steps) = self.recording(id).await?;
        if !steps.iter().any(|kept| kept.has_picture) {
            return Err(VideoError::Empty.into());
        }
        tokio::select! {
            made = self.video_of(id, &steps) => made,
            () = self.draining().cancelled() => Err(BrowserError::ShuttingDown),
        }
    }

    /// Encodes the steps. A step without a picture shows the previous one.
    async fn video_of(&self, id: &RecordingId, steps: &[StoredStep]) -> Result<Video, BrowserError> {
        let options = VideoOptions {
            frames_per_second: 1,
            max_duration: (0..steps.len()).map(|index| step_duration(steps, index)).sum(),
            max_bytes: MAX_VIDEO_BYTES,
            has_captions: true,
        };
        let mut encoder = self.video_encoder(options).await?;
        let (mut last, mut at) = (None, Duration::ZERO);
        for (index, kept) in steps.iter().enumerate() {
            if kept.has_picture {
                let (files, id) = (self.recording_files(), id.clone());
                let own = spawn_blocking(move || picture(&files, &id, index)).await;
                last = own.map_err(io::Error::other).map_err(BrowserError::Recording)?.or(last);
            }
            let Some(jpeg) = &last else { continue };
            let caption = format!("{}/{} {}", index + 1, steps.len(), kept.step.caption());
            encoder.show(jpeg, &caption, at).await?;
            at += step_duration(steps, index);
        }
        into_video(encoder.finish(at).await?)
    }
}

/// Reads a picture; an unreadable one counts as missing.
fn picture(files: &RecordingFiles, id: &RecordingId, index: usize) -> Option<Vec<u8>> {
    files.picture(id, index.try_into().ok()?).ok().flatten()
}

fn step_duration(steps: &[StoredStep], index: usize) -> Duration {
    let start_of = |index: usize| steps.get(index).map(|kept| kept.step.at_ms);
    let duration = start_of(index + 1).zip(start_of(index)).map(|(next, this)| next.saturating_sub(this));
    Duration::from_millis(duration.unwrap_or(MAX_STEP_MS).clamp(MIN_STEP_MS, MAX_STEP_MS))
}
