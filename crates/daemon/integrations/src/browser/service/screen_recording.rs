//! Videos of what the browser shows, encoded as they go by a Chromium of their own.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::time::Duration;

use agentd_browser::{Pace, VideoEncoder, VideoError, VideoOptions, Viewer};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::Browser;
use crate::browser::error::BrowserError;

/// Five minutes of a page that never stands still come to less.
pub(super) const MAX_VIDEO_BYTES: u64 = 1 << 30;
/// For the first picture.
const FIRST_PICTURE_LIMIT: Duration = Duration::from_secs(10);
/// Text stays readable.
const QUALITY: u8 = 80;
/// Pictures that wait to be encoded; a newer one takes the place of what does not fit.
const MAX_WAITING_PICTURES: usize = 2;

/// A video, in a file that has no name: it is gone when it is closed, also when the daemon was killed.
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
    /// A video of the active tab, whichever that is. Where the browser ends before its time, so does the video.
    ///
    /// # Errors
    /// No page is open, another video is being made, this one got too large, or it cannot be encoded.
    pub async fn record_screen(&self, duration: Duration, frames_per_second: u8) -> Result<Video, BrowserError> {
        let _permit = self.0.permits.video()?;
        let session = self.running()?;
        let options =
            VideoOptions { frames_per_second, max_duration: duration, max_bytes: MAX_VIDEO_BYTES, has_captions: false };
        let recorded = async {
            let encoder = self.video_encoder(options).await?;
            let viewer = session.context().watch(Pace { frames_per_second, quality: QUALITY });
            let (sender, receiver) = mpsc::channel(MAX_WAITING_PICTURES);
            let (recorded, encoded) = tokio::join!(record(viewer, sender, duration), encode(encoder, receiver));
            recorded?;
            finished(encoded?)
        };
        let recorded = tokio::select! {
            recorded = recorded => recorded,
            () = self.draining().cancelled() => Err(BrowserError::GoingDown),
        };
        session.used(self.now());
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

/// Passes on what is seen, from the first picture on.
async fn record(mut viewer: Viewer, sender: mpsc::Sender<Input>, duration: Duration) -> Result<(), BrowserError> {
    let first = timeout(FIRST_PICTURE_LIMIT, viewer.next()).await;
    let Some(first) = first.map_err(|_| no_picture())? else { return Err(no_picture()) };
    let began = Instant::now();
    let mut waiting = Some((first, Duration::ZERO));
    loop {
        tokio::select! {
            Ok(permit) = sender.reserve(), if waiting.is_some() => {
                if let Some((picture, at)) = waiting.take() {
                    permit.send(Input::Picture(picture, at));
                }
            }
            // Encoding has failed, with an error of its own.
            () = sender.closed() => return Ok(()),
            picture = viewer.next() => match picture {
                Some(picture) => waiting = Some((picture, began.elapsed())),
                None => break,
            },
            () = sleep_until(began + duration) => break,
        }
    }
    let end = began.elapsed().min(duration);
    if let Some((picture, at)) = waiting {
        // It fails where encoding has.
        let _ = sender.send(Input::Picture(picture, at)).await;
    }
    let _ = sender.send(Input::End(end)).await;
    Ok(())
}

fn no_picture() -> BrowserError {
    let waited_ms = u64::try_from(FIRST_PICTURE_LIMIT.as_millis()).unwrap_or(u64::MAX);
    agentd_browser::BrowserError::Timeout { what: "a picture of the page".to_owned(), waited_ms }.into()
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

pub(super) fn finished(mut file: File) -> Result<Video, BrowserError> {
    file.seek(SeekFrom::Start(0)).map_err(VideoError::Write)?;
    let bytes = file.metadata().map_err(VideoError::Write)?.len();
    Ok(Video { file, bytes })
}
