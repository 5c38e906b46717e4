//! What can be told of a GGUF file without the engine: what kind of model it holds, whether it is
//! still the same file, and its fingerprint.
//!
//! The layout of a GGUF file: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>. Only the
//! settings before the first list are read; writers put the vocabulary, which is one, after those
//! that are of interest here.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::{LocalError, LocalErrorCode};

/// Settings that are looked at, and bytes of one name or text: far more than any file has.
const MAX_SETTINGS: u64 = 256;
const MAX_TEXT_BYTES: u64 = 64 << 10;
const READ_BLOCK_BYTES: usize = 1 << 20;
/// Bytes of the hash that stand in a model's id.
const ID_HASH_BYTES: usize = 8;

/// What the beginning of a GGUF file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// Such as `llama` or `bert`.
    pub architecture: String,
    /// Length of the vectors inside; of those that come out, if it is a sentence encoder.
    pub embedding_length: Option<u64>,
}

impl ModelFacts {
    /// Whether the model makes vectors of texts and writes none.
    #[must_use]
    pub fn is_encoder(&self) -> bool {
        self.architecture.contains("bert") || self.architecture.ends_with("encoder")
    }
}

/// Reads the beginning of the file at `path`.
///
/// # Errors
/// It cannot be read, or is no GGUF file.
pub fn read_model_facts(path: &Path) -> io::Result<ModelFacts> {
    read_facts(&mut BufReader::new(File::open(path)?))
}

fn read_facts(reader: &mut impl Read) -> io::Result<ModelFacts> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "it does not begin as a GGUF file does");
    if read_bytes(reader)? != *b"GGUF" {
        return Err(damaged());
    }
    // Version 1 had shorter lengths, and is not in use any more.
    if u32::from_le_bytes(read_bytes(reader)?) < 2 {
        return Err(damaged());
    }
    let _tensors = read_u64(reader)?;
    let settings = read_u64(reader)?.min(MAX_SETTINGS);
    let mut facts = ModelFacts::default();
    let mut lengths = Vec::new();
    for _ in 0..settings {
        let name = read_text(reader)?.ok_or_else(damaged)?;
        // The types of values, by their numbers in the format.
        let integer = match u32::from_le_bytes(read_bytes(reader)?) {
            0 | 1 | 7 => Some(u64::from(read_bytes::<1>(reader)?[0])),
            2 | 3 => Some(u64::from(u16::from_le_bytes(read_bytes(reader)?))),
            4 | 5 => Some(u64::from(u32::from_le_bytes(read_bytes(reader)?))),
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

fn read_bytes<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_u64(reader: &mut impl Read) -> io::Result<u64> {
    Ok(u64::from_le_bytes(read_bytes(reader)?))
}

/// `None` for a length that no name or text has.
fn read_text(reader: &mut impl Read) -> io::Result<Option<String>> {
    let length = read_u64(reader)?;
    if length > MAX_TEXT_BYTES {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    reader.read_exact(&mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Changes when the file is replaced or written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileIdentity {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl FileIdentity {
    /// The first of the files that is there.
    ///
    /// # Errors
    /// `model_missing` when none is, or when that one cannot be read.
    pub(super) async fn of_first(paths: &[PathBuf]) -> Result<(PathBuf, Self), LocalError> {
        for path in paths {
            match tokio::fs::metadata(path).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(unusable(path, &error.to_string())),
                Ok(metadata) if metadata.is_file() => return Ok((path.clone(), Self::from_metadata(&metadata))),
                Ok(_) => return Err(unusable(path, "it is no file")),
            }
        }
        Err(missing(paths.first().map_or(Path::new("models"), PathBuf::as_path)))
    }

    fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// Reads the whole file: its name without the ending, and the beginning of its SHA-256.
pub(super) async fn fingerprint(path: &Path) -> Result<String, LocalError> {
    let owned = path.to_path_buf();
    let hash = tokio::task::spawn_blocking(move || {
        let mut file = File::open(owned)?;
        let mut hasher = Sha256::new();
        let mut block = vec![0; READ_BLOCK_BYTES];
        loop {
            match file.read(&mut block)? {
                0 => return Ok(hasher.finalize()),
                count => hasher.update(&block[..count]),
            }
        }
    })
    .await
    .map_err(io::Error::from)
    .and_then(|read: io::Result<_>| read)
    .map_err(|error| unusable(path, &error.to_string()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let short: String = hash.iter().take(ID_HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{name}:{short}"))
}

pub(crate) fn missing(path: &Path) -> LocalError {
    LocalError::new(
        LocalErrorCode::ModelMissing,
        format!(
            "there is no embedding model at {}; fetch it with `make models`, or name another place as \
             `embedding_model` in the configuration",
            path.display()
        ),
    )
}

pub(crate) fn unusable(path: &Path, why: &str) -> LocalError {
    LocalError::new(
        LocalErrorCode::ModelMissing,
        format!(
            "the embedding model {} cannot be used: {why}; fetch it again with `make models`, or put another in its \
             place",
            path.display()
        ),
    )
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
    fn reads_what_stands_before_the_vocabulary() {
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
    fn refuses_what_is_no_such_file() {
        let endless = file(&[[&u64::MAX.to_le_bytes()[..], b"x"].concat()]);
        for bytes in [&b""[..], b"GGUF", b"This is no model.", &endless] {
            assert!(read_facts(&mut &*bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn nothing_in_a_file_can_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), begin in 0usize..60) {
            let whole = file(&[setting("general.architecture", 8, &text("bert"))]);
            let bytes = [&whole[..begin.min(whole.len())], &bytes].concat();
            let _ = read_facts(&mut bytes.as_slice());
        }
    }

    #[tokio::test]
    async fn the_fingerprint_is_of_the_content_and_the_identity_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some-model.gguf");
        std::fs::write(&path, b"abc").unwrap();
        // The known digest of these three bytes begins so (FIPS 180-2, appendix B.1).
        assert_eq!(fingerprint(&path).await.unwrap(), "some-model:ba7816bf8f01cfea");
        let paths = [folder.path().join("none.gguf"), path.clone()];
        let before = FileIdentity::of_first(&paths).await.unwrap();
        assert_eq!(before.0, path);
        assert_eq!(FileIdentity::of_first(&paths).await.unwrap(), before);
        std::fs::write(&path, b"abcd").unwrap();
        assert_ne!(FileIdentity::of_first(&paths).await.unwrap(), before);
        for paths in [vec![], vec![folder.path().to_path_buf()], paths[..1].to_vec()] {
            assert_eq!(FileIdentity::of_first(&paths).await.unwrap_err().code, LocalErrorCode::ModelMissing);
        }
    }
}
