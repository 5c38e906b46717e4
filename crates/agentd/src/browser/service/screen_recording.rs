//! Videos of what the browser shows, each made by a thread that gives way to everything else.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use agentd_browser::{Pace, Viewer};
use agentd_video::{VideoError, VideoOptions, VideoWriter};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::Browser;
use crate::browser::error::BrowserError;

/// At a time: each costs up to half a core.
pub(super) const MOST: usize = 1;
/// Five minutes of a page that never stands still come to less.
pub(super) const MAX_BYTES: u64 = 1 << 30;
/// For the first picture.
const PATIENCE: Duration = Duration::from_secs(10);
/// Words stay readable.
const QUALITY: u8 = 80;
/// Pictures that wait to be encoded; a newer one takes the place of what does not fit.
const WAITING: usize = 2;
const NICENESS: i32 = 15;

/// A video, in a file that has no name: it is gone when nobody has it open, also when the daemon was killed.
#[derive(Debug)]
pub struct Video {
    pub file: File,
    pub bytes: u64,
}

/// What the thread that encodes is told. Where it is told no end, nobody wants the video any more.
enum Told {
    Picture(Bytes, Duration),
    End(Duration),
}

impl Browser {
    /// A video of the active tab, whichever that is. Where the browser ends before its time, so does the video.
    ///
    /// # Errors
    /// No page is open, another video is being made, or this one got too large.
    pub async fn record_screen(&self, lasting: Duration, frames_per_second: u8) -> Result<Video, BrowserError> {
        let place = self.video_place()?;
        let session = self.running()?;
        let viewer = session.context().watch(Pace { frames_per_second, quality: QUALITY });
        let output = self.video_file()?;
        let (teller, told) = mpsc::channel(WAITING);
        let options = VideoOptions { frames_per_second, longest: lasting, max_bytes: MAX_BYTES, has_captions: false };
        let encoded = at_low_priority(place, move || encode(output, options, told))?;
        let recorded = tokio::select! {
            recorded = tell(viewer, teller, lasting) => recorded,
            () = self.draining().cancelled() => Err(BrowserError::GoingDown),
        };
        session.used(self.now());
        // What the thread failed with says more than that it takes no pictures any more.
        let video = encoded.await.unwrap_or(Err(VideoError::Empty));
        recorded?;
        finished(video?)
    }

    /// One of the videos that may be made.
    pub(super) fn video_place(&self) -> Result<OwnedSemaphorePermit, BrowserError> {
        Arc::clone(&self.0.videos).try_acquire_owned().map_err(|_| BrowserError::VideoUnderWay)
    }

    pub(super) fn video_file(&self) -> Result<File, BrowserError> {
        let data_dir = &self.0.context.data_dir;
        let folder = data_dir.recordings();
        let made = data_dir.make_folder(&folder).and_then(|()| tempfile::tempfile_in(folder));
        Ok(made.map_err(VideoError::Write)?)
    }
}

/// Passes on what is seen, from the first picture on.
async fn tell(mut viewer: Viewer, teller: mpsc::Sender<Told>, lasting: Duration) -> Result<(), BrowserError> {
    let first = timeout(PATIENCE, viewer.next()).await;
    let Some(first) = first.map_err(|_| nothing_seen())? else { return Err(nothing_seen()) };
    let began = Instant::now();
    let mut waiting = Some((first, Duration::ZERO));
    loop {
        tokio::select! {
            place = teller.reserve(), if waiting.is_some() => {
                // Without a place the thread has failed; it says why.
                let Ok(place) = place else { return Ok(()) };
                if let Some((picture, at)) = waiting.take() {
                    place.send(Told::Picture(picture, at));
                }
            }
            picture = viewer.next() => match picture {
                Some(picture) => waiting = Some((picture, began.elapsed())),
                None => break,
            },
            () = sleep_until(began + lasting) => break,
        }
    }
    let end = began.elapsed().min(lasting);
    if let Some((picture, at)) = waiting {
        // Both fail where the thread has, which says why.
        let _ = teller.send(Told::Picture(picture, at)).await;
    }
    let _ = teller.send(Told::End(end)).await;
    Ok(())
}

fn nothing_seen() -> BrowserError {
    let waited_ms = u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX);
    agentd_browser::BrowserError::Timeout { what: "a picture of the page".to_owned(), waited_ms }.into()
}

fn encode(output: File, options: VideoOptions, mut told: mpsc::Receiver<Told>) -> Result<File, VideoError> {
    let mut writer = VideoWriter::new(output, options)?;
    while let Some(next) = told.blocking_recv() {
        match next {
            Told::Picture(jpeg, at) => writer.show(&jpeg, "", at)?,
            Told::End(end) => return writer.finish(end),
        }
    }
    Err(VideoError::Empty)
}

/// Does something on a thread of its own, which takes what processors have to spare. The place is given back when it is
/// done, whether or not somebody waits for it.
pub(super) fn at_low_priority<T: Send + 'static>(
    place: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<oneshot::Receiver<T>, BrowserError> {
    let (done, outcome) = oneshot::channel();
    let run = move || {
        // A machine that does not allow it has a video that is as important as all else.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
        let result = work();
        drop(place);
        // Nobody may wait any more.
        let _ = done.send(result);
    };
    let thread = std::thread::Builder::new().name("video".to_owned()).spawn(run);
    thread.map_err(VideoError::Write)?;
    Ok(outcome)
}

pub(super) fn finished(mut file: File) -> Result<Video, BrowserError> {
    file.seek(SeekFrom::Start(0)).map_err(VideoError::Write)?;
    let bytes = file.metadata().map_err(VideoError::Write)?.len();
    Ok(Video { file, bytes })
}
