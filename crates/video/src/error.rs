//! Why there is no video.

#[derive(Debug, thiserror::Error)]
pub enum VideoError {
    #[error("there is no picture to make a video of")]
    Empty,
    #[error("a picture cannot be read: {0}")]
    Picture(String),
    #[error("a picture cannot be encoded: {0}")]
    Encoder(String),
    #[error("the video would be larger than {limit} bytes; record a shorter time")]
    TooLarge { limit: u64 },
    #[error("the video cannot be written: {0}")]
    Write(#[from] std::io::Error),
}
