//! Model files in GGUF format that contain only text settings
//! (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>).

use std::io;
use std::path::Path;

/// Magic number, version 3, and no tensors.
const HEAD: &[u8; 16] = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0";
/// GGUF type of a text value.
const TEXT: u32 = 8;

/// Writes a file with these settings.
pub(crate) fn write(path: &Path, settings: &[(&str, &str)]) -> io::Result<()> {
    let mut bytes = HEAD.to_vec();
    bytes.extend(settings.len().to_le_bytes());
    for (name, text) in settings {
        bytes.extend(name.len().to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(TEXT.to_le_bytes());
        bytes.extend(text.len().to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    std::fs::write(path, bytes)
}

/// Returns the value of a setting in a file written by [`write`].
pub(crate) fn read(path: &Path, wanted: &str) -> io::Result<Option<String>> {
    let bytes = std::fs::read(path)?;
    let rest = bytes.strip_prefix(HEAD).and_then(|rest| rest.split_at_checked(8)).map(|(_, rest)| rest);
    let mut rest = rest.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a scripted model"))?;
    while let Some((name, text, after)) = read_setting(rest) {
        if name == wanted.as_bytes() {
            return Ok(Some(String::from_utf8_lossy(text).into_owned()));
        }
        rest = after;
    }
    Ok(None)
}

/// Returns the name and value of the first setting, and the remaining bytes.
fn read_setting(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (name, rest) = read_text(bytes)?;
    let (kind, rest) = rest.split_first_chunk()?;
    let (text, rest) = read_text(rest)?;
    (u32::from_le_bytes(*kind) == TEXT).then_some((name, text, rest))
}

fn read_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}
