//! Encryption of secrets with a passphrase: key derivation with Argon2id, encryption with XChaCha20-Poly1305.

use agentd_base::{Entropy, Secret};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};

use super::error::BackupError;
use super::model::{SecretName, StoredSecret};

/// Minimum length, because short passphrases can be found by brute force.
pub(super) const MIN_PASSPHRASE_CHARACTERS: usize = 8;
/// Associated data of the encryption, which binds the ciphertext to its purpose.
const PURPOSE: &[u8] = b"agentd backup secrets 1";
/// 64 MiB and three passes: the second recommended option of RFC 9106, section 4.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;
/// Maximum cost that an archive may demand for decryption.
const MAX_MEMORY_KIB: u32 = 256 * 1024;
const MAX_PASSES: u32 = 10;
/// Maximum size of the encrypted secrets; larger ones are rejected.
pub(super) const MAX_SEALED_BYTES: u64 = 16 * 1024 * 1024;

/// Content of the file `secrets.sealed`.
#[derive(Serialize, Deserialize)]
struct Sealed {
    kdf: String,
    memory_kib: u32,
    passes: u32,
    salt: String,
    nonce: String,
    sealed: String,
}

#[derive(Serialize, Deserialize)]
struct PlaintextSecret {
    #[serde(flatten)]
    name: SecretName,
    secret: String,
}

/// Encrypts secrets. Takes about a second and 64 MiB, and blocks.
pub(super) fn seal(secrets: &[StoredSecret], passphrase: &Secret, entropy: &Entropy) -> Result<Vec<u8>, BackupError> {
    let (salt, nonce) = (entropy.bytes::<16>(), entropy.bytes::<24>());
    let plain: Vec<PlaintextSecret> = secrets
        .iter()
        .map(|stored| PlaintextSecret { name: stored.name.clone(), secret: stored.secret.expose().to_owned() })
        .collect();
    let failed = |reason: &str| BackupError::Sealing { reason: reason.to_owned() };
    // `Secret` wipes the plaintexts when it is dropped.
    let plain = Secret::new(serde_json::to_string(&plain).map_err(|_| failed("they cannot be serialized"))?);
    let cipher = cipher(passphrase, &salt, MEMORY_KIB, PASSES).ok_or_else(|| failed("the passphrase is too long"))?;
    let sealed = cipher
        .encrypt(&XNonce::from(nonce), Payload { msg: plain.expose().as_bytes(), aad: PURPOSE })
        .map_err(|_| failed("they are too large"))?;
    let file = Sealed {
        kdf: "argon2id".to_owned(),
        memory_kib: MEMORY_KIB,
        passes: PASSES,
        salt: BASE64.encode(salt),
        nonce: BASE64.encode(nonce),
        sealed: BASE64.encode(sealed),
    };
    serde_json::to_vec(&file).map_err(|_| failed("they cannot be written"))
}

/// Decrypts the output of [`seal`].
pub(super) fn open(file: &[u8], passphrase: &Secret) -> Result<Vec<StoredSecret>, BackupError> {
    let broken = || BackupError::archive("secrets.sealed is damaged");
    let file: Sealed = serde_json::from_slice(file).map_err(|_| broken())?;
    if file.kdf != "argon2id" || file.memory_kib > MAX_MEMORY_KIB || file.passes > MAX_PASSES {
        return Err(BackupError::archive("its secrets use an unsupported encryption"));
    }
    let salt = BASE64.decode(&file.salt).map_err(|_| broken())?;
    let nonce: [u8; 24] = BASE64.decode(&file.nonce).ok().and_then(|nonce| nonce.try_into().ok()).ok_or_else(broken)?;
    let sealed = BASE64.decode(&file.sealed).map_err(|_| broken())?;
    let cipher = cipher(passphrase, &salt, file.memory_kib, file.passes).ok_or_else(broken)?;
    let plain = cipher
        .decrypt(&XNonce::from(nonce), Payload { msg: &sealed, aad: PURPOSE })
        .map_err(|_| BackupError::WrongPassphrase)?;
    let plain: Vec<PlaintextSecret> = serde_json::from_slice(&plain).map_err(|_| broken())?;
    Ok(plain.into_iter().map(|plain| StoredSecret { name: plain.name, secret: Secret::new(plain.secret) }).collect())
}

fn cipher(passphrase: &Secret, salt: &[u8], memory_kib: u32, passes: u32) -> Option<XChaCha20Poly1305> {
    let params = Params::new(memory_kib, passes, 1, Some(32)).ok()?;
    let mut key = [0u8; 32];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.expose().as_bytes(), salt, &mut key)
        .ok()?;
    Some(XChaCha20Poly1305::new(&Key::from(key)))
}

pub(super) fn check_passphrase(passphrase: Option<&Secret>) -> Result<(), BackupError> {
    match passphrase {
        Some(text) if text.expose().chars().count() < MIN_PASSPHRASE_CHARACTERS => {
            Err(BackupError::ShortPassphrase { minimum: MIN_PASSPHRASE_CHARACTERS })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Vec<StoredSecret> {
        let name = SecretName { scope: "providers".into(), name: "openai".into() };
        vec![StoredSecret { name, secret: Secret::new("sk-very-secret".into()) }]
    }

    #[test]
    fn secrets_open_only_with_their_passphrase() {
        let passphrase = Secret::new("correct horse".into());
        let file = seal(&secrets(), &passphrase, &Entropy::seeded(1)).unwrap();
        assert!(!String::from_utf8_lossy(&file).contains("very-secret"));
        let opened = open(&file, &passphrase).unwrap();
        assert_eq!(opened[0].name, secrets()[0].name);
        assert_eq!(opened[0].secret.expose(), "sk-very-secret");
        let wrong = open(&file, &Secret::new("correct house".into()));
        assert!(matches!(wrong, Err(BackupError::WrongPassphrase)));
    }

    #[test]
    fn excessive_cost_parameters_are_rejected() {
        let file = seal(&secrets(), &Secret::new("correct horse".into()), &Entropy::seeded(1)).unwrap();
        let mut greedy: Sealed = serde_json::from_slice(&file).unwrap();
        greedy.memory_kib = u32::MAX;
        let greedy = serde_json::to_vec(&greedy).unwrap();
        assert!(matches!(open(&greedy, &Secret::new("x".into())), Err(BackupError::Archive { .. })));
        assert!(matches!(open(b"{}", &Secret::new("x".into())), Err(BackupError::Archive { .. })));
    }
}
