//! Pictures as a video: JPEG in, H.264 in MP4 out, within this process.
//!
//! Invariants
//! - Each picture is encoded as it comes; one picture and one encoded sample are in memory at a time. The rest is in
//!   the output, up to a number of bytes.
//! - A picture is shown from the time that was said until the next one, so that a video lasts as long as what it shows,
//!   however seldom that changed.
//! - The first picture decides how large the video is; others are fitted into it.
//! - The file can be played before it is there as a whole: what a player needs first stands first.
//!
//! Deliberately absent: sound, other formats, threads (encoding takes time of the caller's), and where pictures are
//! from.

mod caption;
mod encoder;
mod error;
mod file;
mod picture;
mod writer;

pub use error::VideoError;
pub use writer::{CaptionedPicture, VideoOptions, VideoWriter, video_of};
