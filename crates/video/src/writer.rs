//! A video as it is made.

use std::io::{Seek, Write};
use std::time::Duration;

use crate::VideoError;
use crate::encoder::{Encoded, Encoder};
use crate::file::Mp4File;
use crate::picture::{Layout, decoded};

/// What stands still is said again after so long: some players do not go to places within a longer picture.
const LONGEST_MS: u64 = 1_000;

/// How a video is made.
#[derive(Debug, Clone, Copy)]
pub struct VideoOptions {
    /// As many pictures as come in a second, at most.
    pub frames_per_second: u8,
    /// What it lasts, at most; the beginning of the file is laid out for it.
    pub longest: Duration,
    /// Of the file.
    pub max_bytes: u64,
    /// Whether there are words below the pictures.
    pub has_captions: bool,
}

/// A picture with words below it, and how long both are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptionedPicture {
    pub jpeg: Vec<u8>,
    pub caption: String,
    pub shown_for: Duration,
}

/// A video that is being made.
pub struct VideoWriter<W> {
    file: Mp4File<W>,
    encoder: Encoder,
    layout: Option<Layout>,
    has_captions: bool,
    /// The last picture, whose duration the next one tells.
    last: Option<(u64, Encoded)>,
}

impl<W> std::fmt::Debug for VideoWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VideoWriter").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl<W: Write + Seek> VideoWriter<W> {
    /// Writes into an empty output.
    ///
    /// # Errors
    /// It cannot be written to.
    pub fn new(output: W, options: VideoOptions) -> Result<Self, VideoError> {
        let VideoOptions { frames_per_second, longest, max_bytes, has_captions } = options;
        let seconds = usize::try_from(longest.as_secs()).unwrap_or(usize::MAX).saturating_add(1);
        // Besides those that come, one a second where nothing does.
        let samples = seconds.saturating_mul(usize::from(frames_per_second).max(1) + 1);
        Ok(Self {
            file: Mp4File::begin(output, samples, max_bytes)?,
            encoder: Encoder::new(frames_per_second.max(1))?,
            layout: None,
            has_captions,
            last: None,
        })
    }

    /// Shows a picture from `at` on, a time since the beginning that is later than the one before. The first picture is
    /// shown from the beginning.
    ///
    /// # Errors
    /// It is no picture, or the video gets too large.
    pub fn show(&mut self, jpeg: &[u8], caption: &str, at: Duration) -> Result<(), VideoError> {
        let picture = decoded(jpeg)?;
        let has_captions = self.has_captions;
        let layout = *self.layout.get_or_insert_with(|| Layout::of(&picture, has_captions));
        self.hold_until(millis(at))?;
        let encoded = self.encoder.encode(&layout.arrange(picture, caption))?;
        self.append(millis(at), encoded)
    }

    /// Ends the video at `end`.
    ///
    /// # Errors
    /// Nothing was shown, or the output cannot be written to.
    pub fn finish(mut self, end: Duration) -> Result<W, VideoError> {
        let end = millis(end);
        self.hold_until(end)?;
        let (from, last) = self.last.take().ok_or(VideoError::Empty)?;
        self.file.append(&last, lasting(from, end))?;
        self.file.finish()
    }

    /// Says the last picture again, as often as it takes.
    fn hold_until(&mut self, end: u64) -> Result<(), VideoError> {
        while let Some(next) = self.last.as_ref().map(|(from, _)| from + LONGEST_MS).filter(|next| *next < end) {
            let encoded = self.encoder.again()?;
            self.append(next, encoded)?;
        }
        Ok(())
    }

    fn append(&mut self, at: u64, encoded: Encoded) -> Result<(), VideoError> {
        let Some((from, last)) = self.last.take() else {
            self.last = Some((0, encoded));
            return Ok(());
        };
        let duration = lasting(from, at);
        self.file.append(&last, duration)?;
        self.last = Some((from + u64::from(duration), encoded));
        Ok(())
    }
}

/// A video of pictures that are there already.
///
/// # Errors
/// There is none, one of them cannot be read, or the video gets too large.
pub fn video_of<W: Write + Seek>(
    output: W,
    max_bytes: u64,
    pictures: impl IntoIterator<Item = CaptionedPicture>,
    longest: Duration,
) -> Result<W, VideoError> {
    let options = VideoOptions { frames_per_second: 1, longest, max_bytes, has_captions: true };
    let mut writer = VideoWriter::new(output, options)?;
    let mut at = Duration::ZERO;
    for picture in pictures {
        writer.show(&picture.jpeg, &picture.caption, at)?;
        at += picture.shown_for;
    }
    writer.finish(at)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// At least a millisecond, so that each picture has a time of its own.
fn lasting(from: u64, to: u64) -> u32 {
    u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX).max(1)
}
