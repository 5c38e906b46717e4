//! The owner's picture: a file of its own under a name of 256 random bits. A new picture has a new name:
//! its bytes never change and may be cached for ever.

use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use agentd_base::Entropy;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, ImageResult, Limits};
use tokio::io::AsyncWriteExt;

/// Where pictures are served; the name of the file follows.
pub const AVATAR_PATH: &str = "/api/settings/avatar/";

/// What a decoded picture may have; a file of a few kilobytes can ask for gigabytes.
const MOST_PIXELS: u64 = 25_000_000;
const MOST_DECODED_BYTES: u64 = 200 * 1024 * 1024;

/// The kinds of picture that are taken. SVG is not among them: it can carry scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PictureKind {
    Png,
    Jpeg,
    Gif,
    Webp,
}

impl PictureKind {
    const ALL: [Self; 4] = [Self::Png, Self::Jpeg, Self::Gif, Self::Webp];

    /// What the bytes are, by their beginning; what a client says of them does not count.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
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

    fn ending(self) -> &'static str {
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

    /// Decodes a picture, the first one of an animation: its beginning alone does not show that it is whole. Takes
    /// up to a second of one core.
    pub(super) fn decode(self, bytes: &[u8]) -> Result<(), String> {
        let damaged = |_| format!("cannot be decoded as {}; it is cut off or damaged", self.ending());
        let decoder = self.decoder(bytes).map_err(damaged)?;
        let (width, height) = decoder.dimensions();
        if u64::from(width) * u64::from(height) > MOST_PIXELS || decoder.total_bytes() > MOST_DECODED_BYTES {
            return Err(format!("has {width} x {height} pixels; at most {MOST_PIXELS} are taken, make it smaller"));
        }
        DynamicImage::from_decoder(decoder).map(drop).map_err(damaged)
    }

    fn decoder(self, bytes: &[u8]) -> ImageResult<impl ImageDecoder> {
        let mut reader = ImageReader::with_format(Cursor::new(bytes), self.format());
        let mut limits = Limits::default();
        limits.max_alloc = Some(MOST_DECODED_BYTES);
        reader.limits(limits);
        reader.into_decoder()
    }
}

/// Whether a scan with an end follows the tables of a JPEG and there is a frame of some size before it (ITU T.81,
/// B.2). Decoders fill in what a missing end takes away.
fn is_jpeg(bytes: &[u8]) -> bool {
    let Some(mut rest) = bytes.strip_prefix(&[0xff, 0xd8]) else { return false };
    let mut has_frame = false;
    while let [0xff, tail @ ..] = rest {
        rest = tail;
        // Any number of fill bytes may stand before a marker.
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

/// The kind that a file name of ours stands for; `None` for every other text.
pub(super) fn kind_of_name(file: &str) -> Option<PictureKind> {
    let (stem, ending) = file.split_once('.')?;
    let is_ours = stem.len() == 64 && stem.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    PictureKind::ALL.into_iter().find(|kind| is_ours && kind.ending() == ending)
}

/// The name of the file behind an avatar's address, if it is one of ours.
pub(super) fn own_file(url: &str) -> Option<&str> {
    url.strip_prefix(AVATAR_PATH).filter(|file| kind_of_name(file).is_some())
}

/// Whether this may stand in `avatar_url`.
pub(super) fn is_valid_url(url: &str) -> bool {
    let is_elsewhere = || {
        url::Url::parse(url).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https") && url.host().is_some() && url.username().is_empty()
        })
    };
    own_file(url).is_some() || is_elsewhere()
}

/// Stores the bytes under a new name.
pub(super) async fn store(folder: &Path, kind: PictureKind, bytes: &[u8], entropy: &Entropy) -> io::Result<String> {
    let file = format!("{}.{}", hex::encode(entropy.bytes::<32>()), kind.ending());
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

/// Removes a picture that nobody shows any more. What stays behind costs only its bytes.
pub(super) async fn remove(folder: &Path, file: &str) {
    if let Err(error) = tokio::fs::remove_file(folder.join(file)).await
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "an avatar that is no longer used could not be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_pictures_by_their_bytes() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01";
        assert_eq!(PictureKind::of(png), Some(PictureKind::Png));
        assert_eq!(PictureKind::of(b"GIF89a\x01\0\x01\0\0\0\0;"), Some(PictureKind::Gif));
        assert_eq!(PictureKind::of(b"RIFF\x24\0\0\0WEBPVP8 \x18\0\0\0\0"), Some(PictureKind::Webp));
        let jpeg =
            b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0\
            \xff\xda\0\x08\x01\x01\0\0\x3f\0\x7f\xff\xd9";
        assert_eq!(PictureKind::of(jpeg), Some(PictureKind::Jpeg));
        // Without the scan that follows its tables, and the end of that, it is none.
        for length in 0..jpeg.len() {
            assert_eq!(PictureKind::of(&jpeg[..length]), None, "{length}");
        }
        assert_eq!(PictureKind::of(&[&b"\xff\xd8\xff\xe0"[..], &[0; 200]].concat()), None);
        for other in [
            b"".as_slice(),
            b"<svg xmlns='http://www.w3.org/2000/svg'/>",
            b"\x89PNG",
            b"GIF89a",
            b"%PDF-1.7",
            b"RIFFxxxxWAVE.............",
        ] {
            assert_eq!(PictureKind::of(other), None);
        }
    }

    #[test]
    fn knows_its_own_names() {
        let stem = "0123456789abcdef".repeat(4);
        assert_eq!(kind_of_name(&format!("{stem}.png")), Some(PictureKind::Png));
        for other in [
            stem.clone(),
            format!("{stem}.svg"),
            format!("{stem}.png.png"),
            format!("../{stem}.png"),
            format!("{}.png", &stem[1..]),
            format!("{}.png", stem.to_uppercase()),
        ] {
            assert_eq!(kind_of_name(&other), None, "{other}");
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
