//! Video encoder: JPEG frames in, MP4 out, encoded by a separate Chromium (WebCodecs).
//!
//! Invariants
//! - This Chromium has no profile, no usable proxy, and one page, whose policy permits no request and no origin. It
//!   lives as long as its encoder, so that the end of the recorded session does not end the video.
//! - Each picture is encoded when it arrives, one at a time. After each, muxed data is fetched in pieces and written to
//!   the output, up to the size limit.
//! - A picture is shown from its given time until the next one, so that the video has the length of what it shows.
//! - The first picture determines the size; others are fitted into it.
//! - The metadata precedes the media data in the file (fast start).
//! - The codec is H.264 where this Chromium encodes it, else VP9 or AV1 (`page/video.js`).
//!
//! Deliberately absent: sound, other containers, and the source of the pictures.

mod encoder_page;
mod error;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentd_process::Spawner;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::error::millis;
use crate::{Browser, BrowserLimits, BrowserOptions, ProxyEndpoint};
use encoder_page::{EncoderPage, Piece};
pub use error::VideoError;

/// Maximum size of a picture.
const MAX_PICTURE_BYTES: usize = 16 << 20;
/// Proxy address to which no connection succeeds.
const NO_PROXY: ([u8; 4], u16) = ([255, 255, 255, 255], 1);

/// Settings of a video.
#[derive(Debug, Clone, Copy)]
pub struct VideoOptions {
    /// Maximum number of pictures a second.
    pub frames_per_second: u8,
    /// Maximum duration; space for the metadata is reserved for it.
    pub max_duration: Duration,
    /// Maximum size of the file.
    pub max_bytes: u64,
    /// Whether a caption line is shown below the pictures.
    pub has_captions: bool,
}

/// Video in progress. Dropping it ends its Chromium.
#[derive(Debug)]
pub struct VideoEncoder {
    page: EncoderPage,
    browser: Browser,
    output: Output,
    /// Start of the last picture.
    shown_at: Duration,
}

impl VideoEncoder {
    /// Starts a Chromium for a video that is written to an empty file. `executable` defaults to the installed Chromium.
    ///
    /// # Errors
    /// Chromium is not installed or does not start, or this program was built without the muxer.
    pub async fn start(
        executable: Option<PathBuf>,
        spawner: Spawner,
        file: File,
        options: VideoOptions,
    ) -> Result<Self, VideoError> {
        let browser_options = BrowserOptions {
            executable,
            proxy: Some(ProxyEndpoint { address: NO_PROXY.into(), credential: None }),
            limits: BrowserLimits { tabs: 1, renderers: 2, ..BrowserLimits::default() },
            ..BrowserOptions::default()
        };
        let browser = Browser::new(browser_options, spawner);
        let page = EncoderPage::open(&browser).await?;
        browser.lower_priority().await;
        let encoder = Self {
            page,
            browser,
            output: Output { file: Arc::new(file), max_bytes: options.max_bytes },
            shown_at: Duration::ZERO,
        };
        let frames_per_second = options.frames_per_second.max(1);
        // In addition to the pictures shown: one a second for static content, and the two halves of the last one.
        let seconds = options.max_duration.as_secs().saturating_add(2);
        let max_pictures = seconds.saturating_mul(u64::from(frames_per_second) + 1);
        let arguments = json!({
            "framesPerSecond": frames_per_second, "maxPictures": max_pictures, "hasCaptions": options.has_captions,
        });
        encoder.call("begin", &[arguments], Duration::ZERO).await?;
        Ok(encoder)
    }

    /// Shows a picture from `at` on, which must be later than the previous one. The first picture starts at zero.
    ///
    /// # Errors
    /// The picture cannot be decoded, the video exceeds its size limit, or Chromium has ended. After
    /// [`VideoError::Picture`] further pictures can be shown.
    pub async fn show(&mut self, jpeg: &[u8], caption: &str, at: Duration) -> Result<(), VideoError> {
        if jpeg.len() > MAX_PICTURE_BYTES {
            return Err(VideoError::Picture(format!("it exceeds {MAX_PICTURE_BYTES} bytes")));
        }
        let arguments = [json!(STANDARD.encode(jpeg)), json!(caption), json!(millis(at))];
        self.call("show", &arguments, at.saturating_sub(self.shown_at)).await?;
        self.shown_at = at;
        Ok(())
    }

    /// Finishes the video at `end` and ends its Chromium.
    ///
    /// # Errors
    /// No picture was shown, the video exceeds its size limit, or Chromium has ended.
    pub async fn finish(self, end: Duration) -> Result<File, VideoError> {
        self.call("finish", &[json!(millis(end))], end.saturating_sub(self.shown_at)).await?;
        let Self { page, browser, output, .. } = self;
        drop(page);
        browser.close().await;
        Arc::into_inner(output.file).ok_or_else(|| std::io::Error::other("the video file is still in use").into())
    }

    /// Calls a page function and writes the muxed data. `duration` is the length of the video that it encodes.
    async fn call(&self, function: &'static str, arguments: &[Value], duration: Duration) -> Result<(), VideoError> {
        let mut answer = self.page.call(function, arguments, duration).await?;
        loop {
            self.output.write(answer.pieces).await?;
            if !answer.is_more {
                return Ok(());
            }
            answer = self.page.call("take", &[], Duration::ZERO).await?;
        }
    }
}

/// Output file with its size limit.
#[derive(Debug)]
struct Output {
    file: Arc<File>,
    max_bytes: u64,
}

impl Output {
    async fn write(&self, pieces: Vec<Piece>) -> Result<(), VideoError> {
        let end = |(position, bytes): &Piece| position.saturating_add(bytes.len() as u64);
        if pieces.iter().any(|piece| end(piece) > self.max_bytes) {
            return Err(VideoError::TooLarge { limit: self.max_bytes });
        }
        if pieces.is_empty() {
            return Ok(());
        }
        let file = Arc::clone(&self.file);
        let write = move || pieces.iter().try_for_each(|(position, bytes)| file.write_all_at(bytes, *position));
        let written = tokio::task::spawn_blocking(write).await.map_err(std::io::Error::other).flatten();
        Ok(written?)
    }
}

#[cfg(test)]
mod chromium_tests;
