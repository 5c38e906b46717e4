//! One picture as the encoder takes it: of an even size, the same for the whole video.

use std::io::Cursor;

use image::imageops::{self, FilterType};
use image::{DynamicImage, ImageFormat, ImageReader, Limits, Rgb, RgbImage};

use crate::VideoError;
use crate::caption;

/// Neither side of a picture that comes in is longer.
const MAX_SOURCE_SIDE: u32 = 16_384;
const MAX_SOURCE_BYTES: u64 = 256 << 20;
/// Neither side of a video is longer.
const MAX_SIDE: u32 = 1_920;
/// The encoder takes no less.
const MIN_SIDE: u32 = 16;

/// How a video is divided: pictures above, words below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    width: u32,
    /// Of the picture.
    height: u32,
    /// Of the words.
    caption_height: u32,
}

impl Layout {
    /// For a video that begins with this picture.
    pub(crate) fn of(first: &RgbImage, has_captions: bool) -> Self {
        let (width, height) = fitted((first.width(), first.height()), (MAX_SIDE, MAX_SIDE), 1.0);
        let caption_height = if has_captions { caption::HEIGHT } else { 0 };
        Self { width: even(width), height: even(height), caption_height }
    }

    /// The picture in its place, with the words below it.
    pub(crate) fn arrange(self, picture: RgbImage, words: &str) -> RgbImage {
        let size = (picture.width(), picture.height());
        if size == (self.width, self.height) && self.caption_height == 0 {
            return picture;
        }
        let mut canvas = RgbImage::from_pixel(self.width, self.height + self.caption_height, Rgb([0, 0, 0]));
        if (even(size.0), even(size.1)) == (self.width, self.height) {
            // At most a row and a column too many.
            let whole = imageops::crop_imm(&picture, 0, 0, self.width.min(size.0), self.height.min(size.1));
            imageops::replace(&mut canvas, &whole.to_image(), 0, 0);
        } else {
            let (width, height) = fitted(size, (self.width, self.height), f64::INFINITY);
            let scaled = imageops::resize(&picture, width, height, FilterType::Triangle);
            let (left, top) = ((self.width - width) / 2, (self.height - height) / 2);
            imageops::replace(&mut canvas, &scaled, left.into(), top.into());
        }
        if self.caption_height > 0 {
            caption::draw(&mut canvas, self.height, words);
        }
        canvas
    }
}

/// # Errors
/// It is no JPEG, or a very large one.
pub(crate) fn decoded(jpeg: &[u8]) -> Result<RgbImage, VideoError> {
    let mut reader = ImageReader::with_format(Cursor::new(jpeg), ImageFormat::Jpeg);
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SOURCE_SIDE);
    limits.max_image_height = Some(MAX_SOURCE_SIDE);
    limits.max_alloc = Some(MAX_SOURCE_BYTES);
    reader.limits(limits);
    let decoded = reader.decode().map(DynamicImage::into_rgb8);
    decoded.map_err(|error| VideoError::Picture(error.to_string()))
}

/// The largest size of the same form within `bounds`, and at most `largest_scale` times as large.
fn fitted(size: (u32, u32), bounds: (u32, u32), largest_scale: f64) -> (u32, u32) {
    let scale = |side: u32, bound: u32| f64::from(bound) / f64::from(side.max(1));
    let scale = scale(size.0, bounds.0).min(scale(size.1, bounds.1)).min(largest_scale);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it lies between the bounds")]
    let scaled = |side: u32, bound: u32| ((f64::from(side) * scale).round() as u32).clamp(1, bound);
    (scaled(size.0, bounds.0), scaled(size.1, bounds.1))
}

/// The encoder takes colours for two pixels by two.
fn even(side: u32) -> u32 {
    (side & !1).max(MIN_SIDE)
}
