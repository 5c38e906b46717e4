//! Avatar of the owner: a file whose name has 256 random bits. A new picture gets a new name, so a file never changes
//! and can be cached indefinitely.

use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use agentd_base::Entropy;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, ImageResult, Limits};
use tokio::io::AsyncWriteExt;

/// URL prefix of avatars; the file name follows.
pub const AVATAR_PATH: &str = "/api/settings/avatar/";

/// Maximum number of pixels of a decoded picture, because a small file can expand to gigabytes.
const MAX_PIXELS: u64 = 25_000_000;
const MAX_DECODED_BYTES: u64 = 200 * 1024 * 1024;

/// Supported picture formats. SVG is not supported, because it can contain scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PictureKind {
    Png,
    Jpeg,
    Gif,
    Webp,
}

impl PictureKind {
    const ALL: [Self; 4] = [Self::Png, Self::Jpeg, Self::Gif, Self::Webp];

    /// Detects the format from the first bytes. The media type sent by the client is ignored.
    pub(super) fn detect(bytes: &[u8]) -> Option<Self> {
        let is_png = bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.get(12..16) == Some(b"IHDR");
        let is_gif = (bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a")) && bytes.len() > 13;
        let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") && bytes.len() > 20;
        if is_png {
            Some(Self::Png)
        } else if is_jpeg(bytes) {
            Some(Self::Jpeg)
        } else if is_gif {
            Some(Self::Gif)
        } else if is_webp {
            Some(Self::Webp)
        } else {
            None
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Gif => "gif",
            Self::Webp => "webp",
        }
    }

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    fn format(self) -> ImageFormat {
        match self {
            Self::Png => ImageFormat::Png,
            Self::Jpeg => ImageFormat::Jpeg,
            Self::Gif => ImageFormat::Gif,
            Self::Webp => ImageFormat::WebP,
        }
    }

    /// Decodes a picture (the first frame of an animation) to check that it is complete. Takes up to a second of CPU
    /// time.
    pub(super) fn decode(self, bytes: &[u8]) -> Result<(), String> {
        let damaged = |_| format!("cannot be decoded as {}; it is truncated or damaged", self.extension());
        let decoder = self.decoder(bytes).map_err(damaged)?;
        let (width, height) = decoder.dimensions();
        if u64::from(width) * u64::from(height) > MAX_PIXELS || decoder.total_bytes() > MAX_DECODED_BYTES {
            return Err(format!("has {width} x {height} pixels; the maximum is {MAX_PIXELS}, so reduce its size"));
        }
        DynamicImage::from_decoder(decoder).map(drop).map_err(damaged)
    }

    fn decoder(self, bytes: &[u8]) -> ImageResult<impl ImageDecoder> {
        let mut reader = ImageReader::with_format(Cursor::new(bytes), self.format());
        let mut limits = Limits::default();
        limits.max_alloc = Some(MAX_DECODED_BYTES);
        reader.limits(limits);
        reader.into_decoder()
    }
}

/// Whether a JPEG has a frame with a size, followed by a scan with an end marker (ITU T.81, B.2). Checked here because
/// decoders fill in missing data at the end.
fn is_jpeg(bytes: &[u8]) -> bool {
    let Some(mut rest) = bytes.strip_prefix(&[0xff, 0xd8]) else { return false };
    let mut has_frame = false;
    while let [0xff, tail @ ..] = rest {
        rest = tail;
        // Any number of fill bytes may precede a marker.
        while let [0xff, tail @ ..] = rest {
            rest = tail;
        }
        let [marker, tail @ ..] = rest else { return false };
        rest = tail;
        match marker {
            0xda => return has_frame && rest.windows(2).any(|two| two == [0xff, 0xd9]),
            0x01 | 0xd0..=0xd7 => continue,
            0x00 | 0xd8 | 0xd9 => return false,
            _ => {}
        }
        let [high, low, ..] = rest else { return false };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some((segment, tail)) = rest.split_at_checked(length).filter(|_| length >= 2) else { return false };
        // Besides frames, this range has Huffman tables, arithmetic conditioning and a reserved marker.
        if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
            // Length, precision, height, width.
            let has_width = matches!(segment, [_, _, _, _, _, high, low, ..] if (*high, *low) != (0, 0));
            has_frame |= has_width;
        }
        rest = tail;
    }
    false
}

/// Returns the format of an avatar's file name; `None` if the name is not one.
pub(super) fn kind_of_file_name(file: &str) -> Option<PictureKind> {
    let (stem, extension) = file.split_once('.')?;
    let is_avatar_name = stem.len() == 64 && stem.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    PictureKind::ALL.into_iter().find(|kind| is_avatar_name && kind.extension() == extension)
}

/// Returns the file name in an avatar URL; `None` if the URL is external.
pub(super) fn own_file_name(url: &str) -> Option<&str> {
    url.strip_prefix(AVATAR_PATH).filter(|file| kind_of_file_name(file).is_some())
}

/// Whether the URL is valid for `avatar_url`.
pub(super) fn is_valid_url(url: &str) -> bool {
    let is_external = || {
        url::Url::parse(url).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https") && url.host().is_some() && url.username().is_empty()
        })
    };
    own_file_name(url).is_some() || is_external()
}

/// Stores the bytes under a new name.
pub(super) async fn store(folder: &Path, kind: PictureKind, bytes: &[u8], entropy: &Entropy) -> io::Result<String> {
    let file = format!("{}.{}", hex::encode(entropy.bytes::<32>()), kind.extension());
    let path = folder.join(&file);
    let written = write(&path, bytes).await;
    if written.is_err() {
        remove(folder, &file).await;
    }
    written.map(|()| file)
}

async fn write(path: &PathBuf, bytes: &[u8]) -> io::Result<()> {
    let mut options = tokio::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).await?;
    file.write_all(bytes).await?;
    file.sync_all().await
}

/// Removes a picture that is no longer used. A failure only wastes disk space.
pub(super) async fn remove(folder: &Path, file: &str) {
    if let Err(error) = tokio::fs::remove_file(folder.join(file)).await
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "failed to remove unused avatar");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_format_is_detected_from_bytes() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01";
        assert_eq!(PictureKind::detect(png), Some(PictureKind::Png));
        assert_eq!(PictureKind::detect(b"GIF89a\x01\0\x01\0\0\0\0;"), Some(PictureKind::Gif));
        assert_eq!(PictureKind::detect(b"RIFF\x24\0\0\0WEBPVP8 \x18\0\0\0\0"), Some(PictureKind::Webp));
        let jpeg =
            b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0\
            \xff\xda\0\x08\x01\x01\0\0\x3f\0\x7f\xff\xd9";
        assert_eq!(PictureKind::detect(jpeg), Some(PictureKind::Jpeg));
        // A truncated JPEG is not detected.
        for length in 0..jpeg.len() {
            assert_eq!(PictureKind::detect(&jpeg[..length]), None, "{length}");
        }
        assert_eq!(PictureKind::detect(&[&b"\xff\xd8\xff\xe0"[..], &[0; 200]].concat()), None);
        for other in [
            b"".as_slice(),
            b"<svg xmlns='http://www.w3.org/2000/svg'/>",
            b"\x89PNG",
            b"GIF89a",
            b"%PDF-1.7",
            b"RIFFxxxxWAVE.............",
        ] {
            assert_eq!(PictureKind::detect(other), None);
        }
    }

    #[test]
    fn only_avatar_names_and_web_urls_are_valid() {
        let stem = "0123456789abcdef".repeat(4);
        assert_eq!(kind_of_file_name(&format!("{stem}.png")), Some(PictureKind::Png));
        for other in [
            stem.clone(),
            format!("{stem}.svg"),
            format!("{stem}.png.png"),
            format!("../{stem}.png"),
            format!("{}.png", &stem[1..]),
            format!("{}.png", stem.to_uppercase()),
        ] {
            assert_eq!(kind_of_file_name(&other), None, "{other}");
        }
        assert!(is_valid_url(&format!("{AVATAR_PATH}{stem}.webp")));
        assert!(is_valid_url("https://pictures.example/a.png"));
        for other in [
            "",
            "javascript:alert(1)",
            "data:image/png;base64,AA",
            "/etc/passwd",
            "/api/settings/avatar/../x.png",
            "https://user@x.example/",
        ] {
            assert!(!is_valid_url(other), "{other}");
        }
    }
}
