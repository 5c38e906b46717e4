//! Screen recordings, encoded on the fly by a separate Chromium.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::time::Duration;

use agentd_browser::{Pace, VideoEncoder, VideoError, VideoOptions, Viewer};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::Browser;
use crate::browser::error::BrowserError;

/// Maximum size of a video; five minutes of a constantly changing page stay below it.
pub(super) const MAX_VIDEO_BYTES: u64 = 1 << 30;
/// Maximum time to wait for the first frame.
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_secs(10);
/// JPEG quality at which text remains readable.
const JPEG_QUALITY: u8 = 80;
/// Maximum number of frames that wait for the encoder; a newer one replaces the last one.
const MAX_WAITING_FRAMES: usize = 2;

/// Video in an anonymous file, which is deleted when it is closed or the daemon is killed.
#[derive(Debug)]
pub struct Video {
    pub file: File,
    pub bytes: u64,
}

/// Input of the encoder.
enum Input {
    Picture(Bytes, Duration),
    End(Duration),
}

impl Browser {
    /// Records the active tab. The video ends early if the browser ends.
    ///
    /// # Errors
    /// No page is open, another video is being created, the video is too large, or encoding fails.
    pub async fn record_screen(&self, duration: Duration, frames_per_second: u8) -> Result<Video, BrowserError> {
        let _permit = self.0.permits.video()?;
        let session = self.running()?;
        let options =
            VideoOptions { frames_per_second, max_duration: duration, max_bytes: MAX_VIDEO_BYTES, has_captions: false };
        let recorded = async {
            let encoder = self.video_encoder(options).await?;
            let viewer = session.context().watch(Pace { frames_per_second, quality: JPEG_QUALITY });
            let (sender, receiver) = mpsc::channel(MAX_WAITING_FRAMES);
            let (recorded, encoded) = tokio::join!(record(viewer, sender, duration), encode(encoder, receiver));
            recorded?;
            into_video(encoded?)
        };
        let recorded = tokio::select! {
            recorded = recorded => recorded,
            () = self.draining().cancelled() => Err(BrowserError::ShuttingDown),
        };
        session.mark_used(self.now());
        recorded
    }

    /// Starts the Chromium that encodes a video.
    pub(super) async fn video_encoder(&self, options: VideoOptions) -> Result<VideoEncoder, BrowserError> {
        let data_dir = &self.0.context.data_dir;
        let folder = data_dir.recordings();
        let file = data_dir.make_folder(&folder).and_then(|()| tempfile::tempfile_in(folder));
        let file = file.map_err(VideoError::Write)?;
        Ok(VideoEncoder::start(self.0.executable.clone(), self.0.spawner.clone(), file, options).await?)
    }
}

/// Forwards frames to the encoder, starting with the first one.
async fn record(mut viewer: Viewer, sender: mpsc::Sender<Input>, duration: Duration) -> Result<(), BrowserError> {
    let first = timeout(FIRST_FRAME_TIMEOUT, viewer.next()).await;
    let Some(first) = first.map_err(|_| first_frame_timeout())? else { return Err(first_frame_timeout()) };
    let started = Instant::now();
    let mut waiting = Some((first, Duration::ZERO));
    loop {
        tokio::select! {
            Ok(permit) = sender.reserve(), if waiting.is_some() => {
                if let Some((picture, at)) = waiting.take() {
                    permit.send(Input::Picture(picture, at));
                }
            }
            // The encoder failed and returns its own error.
            () = sender.closed() => return Ok(()),
            picture = viewer.next() => match picture {
                Some(picture) => waiting = Some((picture, started.elapsed())),
                None => break,
            },
            () = sleep_until(started + duration) => break,
        }
    }
    let end = started.elapsed().min(duration);
    if let Some((picture, at)) = waiting {
        // Fails if the encoder has failed.
        let _ = sender.send(Input::Picture(picture, at)).await;
    }
    let _ = sender.send(Input::End(end)).await;
    Ok(())
}

fn first_frame_timeout() -> BrowserError {
    let waited_ms = u64::try_from(FIRST_FRAME_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
    agentd_browser::BrowserError::Timeout { what: "a frame of the page".to_owned(), waited_ms }.into()
}

async fn encode(mut encoder: VideoEncoder, mut receiver: mpsc::Receiver<Input>) -> Result<File, VideoError> {
    while let Some(input) = receiver.recv().await {
        match input {
            Input::Picture(jpeg, at) => encoder.show(&jpeg, "", at).await?,
            Input::End(end) => return encoder.finish(end).await,
        }
    }
    Err(VideoError::Empty)
}

pub(super) fn into_video(mut file: File) -> Result<Video, BrowserError> {
    file.seek(SeekFrom::Start(0)).map_err(VideoError::Write)?;
    let bytes = file.metadata().map_err(VideoError::Write)?.len();
    Ok(Video { file, bytes })
}
