//! A video of the steps of a recording.

use std::io;
use std::time::Duration;

use agentd_browser::{VideoError, VideoOptions};
use tokio::task::spawn_blocking;

use super::Browser;
use super::screen_recording::{MAX_VIDEO_BYTES, Video, finished};
use crate::browser::error::BrowserError;
use crate::browser::files::RecordingFiles;
use crate::browser::model::{KeptStep, RecordingId};

/// A step is shown until the next one began, and so long at least and at most.
const MIN_STEP_MS: u64 = 1_000;
const MAX_STEP_MS: u64 = 3_000;

impl Browser {
    /// Shows what each step came to, with its name below. Ends early when its caller goes away.
    ///
    /// # Errors
    /// There is no such recording, it has no pictures, another video is being made, or it cannot be encoded.
    pub async fn recording_video(&self, id: &RecordingId) -> Result<Video, BrowserError> {
        let _permit = self.0.permits.video()?;
        let (_, steps) = self.recording(id).await?;
        if !steps.iter().any(|kept| kept.has_picture) {
            return Err(VideoError::Empty.into());
        }
        tokio::select! {
            made = self.video_of(id, &steps) => made,
            () = self.draining().cancelled() => Err(BrowserError::GoingDown),
        }
    }

    /// A step without a picture is shown with the last one that there was.
    async fn video_of(&self, id: &RecordingId, steps: &[KeptStep]) -> Result<Video, BrowserError> {
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
        finished(encoder.finish(at).await?)
    }
}

/// One that cannot be read counts as none.
fn picture(files: &RecordingFiles, id: &RecordingId, index: usize) -> Option<Vec<u8>> {
    files.picture(id, index.try_into().ok()?).ok().flatten()
}

fn step_duration(steps: &[KeptStep], index: usize) -> Duration {
    let began = |index: usize| steps.get(index).map(|kept| kept.step.at_ms);
    let lasted = began(index + 1).zip(began(index)).map(|(next, this)| next.saturating_sub(this));
    Duration::from_millis(lasted.unwrap_or(MAX_STEP_MS).clamp(MIN_STEP_MS, MAX_STEP_MS))
}
