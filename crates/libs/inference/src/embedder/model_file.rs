//! Location and fingerprint of the embedding model's file.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::gguf::FileIdentity;
use crate::{LocalError, LocalErrorCode};

const READ_BLOCK_BYTES: usize = 1 << 20;
/// Number of hash bytes in a model id.
const ID_HASH_BYTES: usize = 8;

/// Returns the first existing file.
///
/// # Errors
/// Returns `model_missing` if none exists or if that one is unreadable.
pub(super) async fn first_existing(paths: &[PathBuf]) -> Result<(PathBuf, FileIdentity), LocalError> {
    for path in paths {
        match tokio::fs::metadata(path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unusable(path, &error.to_string())),
            Ok(metadata) if metadata.is_file() => return Ok((path.clone(), FileIdentity::from(&metadata))),
            Ok(_) => return Err(unusable(path, "it is not a file")),
        }
    }
    Err(missing(paths.first().map_or(Path::new("models"), PathBuf::as_path)))
}

/// Reads the whole file and returns its name without extension and the beginning of its SHA-256.
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
            "embedding model {} not found; download it with `make models`, or set another path as \
             `embedding_model` in the configuration",
            path.display()
        ),
    )
}

pub(crate) fn unusable(path: &Path, why: &str) -> LocalError {
    LocalError::new(
        LocalErrorCode::ModelMissing,
        format!(
            "the embedding model {} cannot be used: {why}; download it again with `make models`, or replace it",
            path.display()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn fingerprint_covers_content_and_identity_detects_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some-model.gguf");
        std::fs::write(&path, b"abc").unwrap();
        // Known digest of these three bytes (FIPS 180-2, appendix B.1).
        assert_eq!(fingerprint(&path).await.unwrap(), "some-model:ba7816bf8f01cfea");
        let paths = [folder.path().join("none.gguf"), path.clone()];
        let before = first_existing(&paths).await.unwrap();
        assert_eq!(before.0, path);
        assert_eq!(first_existing(&paths).await.unwrap(), before);
        std::fs::write(&path, b"abcd").unwrap();
        assert_ne!(first_existing(&paths).await.unwrap(), before);
        for paths in [vec![], vec![folder.path().to_path_buf()], paths[..1].to_vec()] {
            assert_eq!(first_existing(&paths).await.unwrap_err().code, LocalErrorCode::ModelMissing);
        }
    }
}
