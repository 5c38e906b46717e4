//! Metadata of GGUF files, read without the engine.
//!
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

#[cfg(any(feature = "local-model", test))]
pub(crate) mod tensors;

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Key of the chat template of a generative model.
pub(crate) const CHAT_TEMPLATE: &str = "tokenizer.chat_template";

/// Limits: settings read, bytes of one name or text, and items of all lists; far above those of real files.
const MAX_SETTINGS: u64 = 256;
const MAX_TEXT_BYTES: u64 = 64 << 10;
const MAX_ITEMS: u64 = 10_000_000;
/// Value types, by their numbers in the format.
const TEXT: u32 = 8;
const LIST: u32 = 9;

/// Metadata from the beginning of a GGUF file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// Architecture such as `llama` or `bert`.
    pub architecture: String,
    /// Length of the internal vectors; for a sentence encoder, also of its output.
    pub embedding_length: Option<u64>,
}

impl ModelFacts {
    /// Whether the model produces embeddings instead of text.
    #[must_use]
    pub fn is_encoder(&self) -> bool {
        self.architecture.contains("bert") || self.architecture.ends_with("encoder")
    }
}

/// Reads the metadata of the file at `path`, up to the first list. The vocabulary, which is a list, usually follows the
/// relevant settings.
///
/// # Errors
/// Returns an error if the file is unreadable or not a GGUF file.
pub fn read_model_facts(path: &Path) -> io::Result<ModelFacts> {
    read_facts(&mut BufReader::new(File::open(path)?))
}

fn read_facts(reader: &mut impl Read) -> io::Result<ModelFacts> {
    let settings = read_header(reader)?;
    let mut facts = ModelFacts::default();
    let mut lengths = Vec::new();
    for _ in 0..settings {
        let name = read_text(reader)?.ok_or_else(damaged)?;
        // Value types, by their numbers in the format.
        let integer = match read_u32(reader)? {
            0 | 1 | 7 => Some(u64::from(read_bytes::<1>(reader)?[0])),
            2 | 3 => Some(u64::from(u16::from_le_bytes(read_bytes(reader)?))),
            4 | 5 => Some(u64::from(read_u32(reader)?)),
            6 => read_bytes::<4>(reader).map(|_| None)?,
            8 => {
                let text = read_text(reader)?.ok_or_else(damaged)?;
                if name == "general.architecture" {
                    facts.architecture = text;
                }
                None
            }
            10 | 11 => Some(read_u64(reader)?),
            12 => read_bytes::<8>(reader).map(|_| None)?,
            _ => break,
        };
        if let (Some(length), Some(owner)) = (integer, name.strip_suffix(".embedding_length")) {
            lengths.push((owner.to_owned(), length));
        }
    }
    facts.embedding_length =
        lengths.into_iter().find(|(owner, _)| *owner == facts.architecture).map(|(_, length)| length);
    Ok(facts)
}

/// Returns the text settings `names`, anywhere in the file.
///
/// # Errors
/// Returns an error if the file is unreadable or not a GGUF file.
pub(crate) fn read_texts<const N: usize>(path: &Path, names: [&str; N]) -> io::Result<[Option<String>; N]> {
    find_texts(&mut BufReader::new(File::open(path)?), names)
}

fn find_texts<const N: usize>(reader: &mut impl Read, names: [&str; N]) -> io::Result<[Option<String>; N]> {
    let mut found = [const { None }; N];
    let mut items = MAX_ITEMS;
    for _ in 0..read_header(reader)? {
        let name = read_text(reader)?.ok_or_else(damaged)?;
        let kind = read_u32(reader)?;
        match names.iter().position(|wanted| *wanted == name) {
            Some(at) if kind == TEXT => found[at] = Some(read_text(reader)?.ok_or_else(damaged)?),
            _ => skip_value(reader, kind, &mut items)?,
        }
    }
    Ok(found)
}

/// Reads the header and returns the number of settings.
fn read_header(reader: &mut impl Read) -> io::Result<u64> {
    // Version 1 used shorter lengths and is no longer in use.
    if read_bytes(reader)? != *b"GGUF" || read_u32(reader)? < 2 {
        return Err(damaged());
    }
    let _tensors = read_u64(reader)?;
    Ok(read_u64(reader)?.min(MAX_SETTINGS))
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not a GGUF file")
}

/// Returns the size of a value of this type, if it is fixed.
fn length_of(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// Skips a value; `items` is the remaining limit for the items of all lists.
fn skip_value(reader: &mut impl Read, kind: u32, items: &mut u64) -> io::Result<()> {
    match kind {
        LIST => {
            let (kind, count) = (read_u32(reader)?, read_u64(reader)?);
            *items = items.checked_sub(count).ok_or_else(damaged)?;
            match length_of(kind) {
                Some(length) => skip(reader, count * length),
                None if kind == TEXT => (0..count).try_for_each(|_| skip_text(reader)),
                None => Err(damaged()),
            }
        }
        TEXT => skip_text(reader),
        _ => skip(reader, length_of(kind).ok_or_else(damaged)?),
    }
}

fn skip_text(reader: &mut impl Read) -> io::Result<()> {
    let length = read_u64(reader)?;
    skip(reader, length)
}

fn skip(reader: &mut impl Read, length: u64) -> io::Result<()> {
    if io::copy(&mut reader.take(length), &mut io::sink())? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// Writes a file that contains only these settings.
#[cfg(test)]
fn write_texts(path: &Path, settings: &[(&str, &str)]) -> io::Result<()> {
    let mut bytes = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0".to_vec();
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

fn read_bytes<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_u32(reader: &mut impl Read) -> io::Result<u32> {
    Ok(u32::from_le_bytes(read_bytes(reader)?))
}

fn read_u64(reader: &mut impl Read) -> io::Result<u64> {
    Ok(u64::from_le_bytes(read_bytes(reader)?))
}

/// Reads a text; `None` if its length exceeds the limit.
fn read_text(reader: &mut impl Read) -> io::Result<Option<String>> {
    let length = read_u64(reader)?;
    if length > MAX_TEXT_BYTES {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    reader.read_exact(&mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Identity that changes when the file is replaced or modified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl From<&Metadata> for FileIdentity {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&u64::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat()
    }

    fn setting(name: &str, kind: u32, value: &[u8]) -> Vec<u8> {
        [&text(name)[..], &kind.to_le_bytes(), value].concat()
    }

    fn file(settings: &[Vec<u8>]) -> Vec<u8> {
        let count = u64::try_from(settings.len()).unwrap().to_le_bytes();
        [&b"GGUF"[..], &3u32.to_le_bytes(), &101u64.to_le_bytes(), &count, &settings.concat()].concat()
    }

    #[test]
    fn metadata_before_the_vocabulary_is_read() {
        let bytes = file(&[
            setting("other.embedding_length", 4, &7u32.to_le_bytes()),
            setting("general.architecture", 8, &text("bert")),
            setting("bert.epsilon", 6, &1f32.to_le_bytes()),
            setting("bert.causal", 7, &[0]),
            setting("bert.embedding_length", 10, &384u64.to_le_bytes()),
            setting("tokenizer.ggml.tokens", 9, &[]),
            setting("general.architecture", 8, &text("too late")),
        ]);
        let facts = read_facts(&mut bytes.as_slice()).unwrap();
        assert_eq!(facts, ModelFacts { architecture: "bert".to_owned(), embedding_length: Some(384) });
        assert!(facts.is_encoder());
        assert!(!ModelFacts { architecture: "llama".to_owned(), embedding_length: None }.is_encoder());
    }

    #[test]
    fn other_files_are_rejected() {
        let endless = file(&[[&u64::MAX.to_le_bytes()[..], b"x"].concat()]);
        for bytes in [&b""[..], b"GGUF", b"This is no model.", &endless] {
            assert!(read_facts(&mut &*bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_files_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), begin in 0usize..60) {
            let whole = file(&[setting("general.architecture", 8, &text("bert"))]);
            let bytes = [&whole[..begin.min(whole.len())], &bytes].concat();
            let _ = read_facts(&mut bytes.as_slice());
            let _ = find_texts(&mut bytes.as_slice(), [CHAT_TEMPLATE]);
        }
    }

    #[test]
    fn text_setting_is_found_after_the_vocabulary() {
        let list =
            |kind: u32, count: u64, items: &[u8]| [&kind.to_le_bytes()[..], &count.to_le_bytes(), items].concat();
        let bytes = file(&[
            setting("general.architecture", 8, &text("llama")),
            setting("tokenizer.ggml.tokens", 9, &list(8, 2, &[text("a"), text("bc")].concat())),
            setting("tokenizer.ggml.scores", 9, &list(6, 2, &[0; 8])),
            setting("tokenizer.ggml.eos_token_id", 4, &[0; 4]),
            setting(CHAT_TEMPLATE, 8, &text("{{ x }}")),
        ]);
        let found = find_texts(&mut bytes.as_slice(), [CHAT_TEMPLATE, "absent"]).unwrap();
        assert_eq!(found, [Some("{{ x }}".to_owned()), None]);
        let endless = file(&[setting("x", 9, &list(8, u64::MAX, &[]))]);
        assert!(find_texts(&mut endless.as_slice(), [CHAT_TEMPLATE]).is_err());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        write_texts(&path, &[("a", "1"), (CHAT_TEMPLATE, "{{ y }}")]).unwrap();
        assert_eq!(read_texts(&path, [CHAT_TEMPLATE]).unwrap(), [Some("{{ y }}".to_owned())]);
    }
}
