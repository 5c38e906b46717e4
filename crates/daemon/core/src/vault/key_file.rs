//! Key file: 64 hexadecimal characters, mode 0600.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use agentd_base::{Entropy, Secret};

use super::error::VaultError;
use super::seal::Key;
use crate::runtime::open_trusted;

/// Maximum number of bytes read; more than a key with a line ending has.
const MAX_BYTES: u64 = 256;

/// Reads the key; `None` if the file does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Key>, VaultError> {
    let failed = |source| VaultError::KeyFile { action: "read", path: path.to_path_buf(), source };
    let file = match open_trusted(path) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(VaultError::KeyFileExposed { path: path.to_path_buf(), mode });
    }
    let mut text = String::new();
    let invalid = || VaultError::KeyFileInvalid { path: path.to_path_buf() };
    match file.take(MAX_BYTES).read_to_string(&mut text) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(invalid()),
        Err(error) => return Err(failed(error)),
    }
    let text = Secret::new(text);
    let mut bytes = [0; 32];
    hex::decode_to_slice(text.expose().trim(), &mut bytes).map_err(|_| invalid())?;
    Ok(Some(Key::new(&bytes)))
}

/// Creates a new key file atomically. If another process creates it first, its key is returned.
pub(super) fn create(path: &Path, entropy: &Entropy) -> Result<Key, VaultError> {
    let failed = |source| VaultError::KeyFile { action: "created", path: path.to_path_buf(), source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = temporary_name(folder, entropy);
    let written = write_and_link(&temporary, path, folder, &entropy.secret(""));
    // Best effort: the hard link is the result, and a leftover temporary file does no harm.
    let _ = std::fs::remove_file(&temporary);
    match written {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    read(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

fn temporary_name(folder: &Path, entropy: &Entropy) -> PathBuf {
    folder.join(format!(".secret.key.{}", hex::encode(entropy.bytes::<8>())))
}

fn write_and_link(temporary: &Path, path: &Path, folder: &Path, key: &Secret) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
    writeln!(file, "{}", key.expose())?;
    file.sync_all()?;
    // Unlike a rename, a hard link never replaces an existing file.
    std::fs::hard_link(temporary, path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn created_key_file_is_private_and_readable() {
        let folder = folder();
        let path = folder.path().join("secret.key");
        assert!(read(&path).unwrap().is_none());
        let created = create(&path, &Entropy::seeded(1)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(read(&path).unwrap().unwrap().fingerprint(), created.fingerprint());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn create_never_replaces_an_existing_key() {
        let folder = folder();
        let path = folder.path().join("secret.key");
        let first = create(&path, &Entropy::seeded(1)).unwrap();
        let second = create(&path, &Entropy::seeded(2)).unwrap();
        assert_eq!(first.fingerprint(), second.fingerprint());
    }

    #[test]
    fn key_file_readable_by_others_is_rejected_with_remedy() {
        let folder = folder();
        let path = folder.path().join("secret.key");
        create(&path, &Entropy::seeded(1)).unwrap();
        for mode in [0o640, 0o604] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = read(&path).err().unwrap();
            assert!(matches!(error, VaultError::KeyFileExposed { .. }));
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o622)).unwrap();
        assert!(matches!(read(&path), Err(VaultError::KeyFileUntrusted(_))));
    }

    #[test]
    fn malformed_key_is_rejected() {
        let folder = folder();
        let path = folder.path().join("secret.key");
        for bytes in [b"".as_slice(), b"abc", &[b'f'; 63], &[b'g'; 64], &[0xff; 64], &[b'a'; 300]] {
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            let error = read(&path).err().unwrap();
            assert!(matches!(error, VaultError::KeyFileInvalid { .. }), "{error}");
            assert!(!error.to_string().contains("ggg"), "{error}");
        }
    }
}
