//! A video of the steps of a recording.

use std::time::Duration;

use agentd_video::{CaptionedPicture, VideoError, video_of};
use tokio_util::sync::CancellationToken;

use super::Browser;
use super::screen_recording::{MAX_BYTES, Video, at_low_priority, finished};
use crate::browser::error::BrowserError;
use crate::browser::files::RecordingFiles;
use crate::browser::model::{KeptStep, RecordingId};

/// A step is shown until the next one began, and so long at least and at most.
const SHORTEST_MS: u64 = 1_000;
const LONGEST_MS: u64 = 3_000;

impl Browser {
    /// Shows what each step came to, with its name below. Ends early when its caller goes away.
    ///
    /// # Errors
    /// There is no such recording, it has no pictures, or another video is being made.
    pub async fn recording_video(&self, id: &RecordingId) -> Result<Video, BrowserError> {
        let place = self.video_place()?;
        let (_, steps) = self.recording(id).await?;
        let output = self.video_file()?;
        let (files, id) = (self.recording_files(), id.clone());
        let gone = CancellationToken::new();
        let _goes_with_this = gone.clone().drop_guard();
        let made = at_low_priority(place, move || {
            let pictures = pictures(&files, &id, &steps).take_while(|_| !gone.is_cancelled());
            video_of(output, MAX_BYTES, pictures, steps_last(&steps))
        })?;
        tokio::select! {
            made = made => finished(made.unwrap_or(Err(VideoError::Empty))?),
            () = self.draining().cancelled() => Err(BrowserError::GoingDown),
        }
    }
}

/// One is in memory at a time. A step without a picture is shown with the last one that there was.
fn pictures(files: &RecordingFiles, id: &RecordingId, steps: &[KeptStep]) -> impl Iterator<Item = CaptionedPicture> {
    let mut last = None;
    (0..).zip(steps).filter_map(move |(index, kept)| {
        let own = kept.has_picture.then(|| files.picture(id, index).ok().flatten()).flatten();
        last = own.or_else(|| last.take());
        let jpeg = last.clone()?;
        let caption = format!("{}/{} {}", index + 1, steps.len(), kept.step.caption());
        Some(CaptionedPicture { jpeg, caption, shown_for: shown_for(steps, index as usize) })
    })
}

fn steps_last(steps: &[KeptStep]) -> Duration {
    (0..steps.len()).map(|index| shown_for(steps, index)).sum()
}

fn shown_for(steps: &[KeptStep], index: usize) -> Duration {
    let began = |index: usize| steps.get(index).map(|kept| kept.step.at_ms);
    let lasted = began(index + 1).zip(began(index)).map(|(next, this)| next.saturating_sub(this));
    Duration::from_millis(lasted.unwrap_or(LONGEST_MS).clamp(SHORTEST_MS, LONGEST_MS))
}
