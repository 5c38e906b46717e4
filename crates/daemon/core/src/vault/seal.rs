//! Encryption format: a version byte, a random nonce of 24 bytes, and the ciphertext with its tag. Nonces of that
//! length can be chosen at random for every message (draft-irtf-cfrg-xchacha).

use agentd_base::{Entropy, Secret, sha256};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

const VERSION: u8 = 1;
const NONCE_LENGTH: usize = 24;

/// 256-bit key. Its memory is zeroed on drop.
pub(super) struct Key {
    cipher: XChaCha20Poly1305,
    fingerprint: String,
    /// Derived key for keyed hashes of values that may contain secrets.
    hashing_key: [u8; 32],
}

/// Associated data that binds a ciphertext to its scope and name.
pub(super) fn associated_data(scope: &str, name: &str) -> Vec<u8> {
    let mut associated_data = b"agentd secret v1\0".to_vec();
    // The length prefix distinguishes `ab`/`c` from `a`/`bc`.
    associated_data.extend_from_slice(&u32::try_from(scope.len()).unwrap_or(u32::MAX).to_le_bytes());
    associated_data.extend_from_slice(scope.as_bytes());
    associated_data.extend_from_slice(name.as_bytes());
    associated_data
}

impl Key {
    pub(super) fn new(bytes: &[u8; 32]) -> Self {
        let mut input = b"agentd vault key fingerprint v1\0".to_vec();
        input.extend_from_slice(bytes);
        // The key is uniformly random, so its hash reveals nothing about it.
        let fingerprint = hex::encode(&sha256(&input)[..16]);
        let mut input = b"agentd hashing key v1\0".to_vec();
        input.extend_from_slice(bytes);
        Self { cipher: XChaCha20Poly1305::new(bytes.into()), fingerprint, hashing_key: sha256(&input) }
    }

    /// Returns the derived hashing key, which reveals nothing about this key.
    pub(super) fn hashing_key(&self) -> [u8; 32] {
        self.hashing_key
    }

    pub(super) fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    pub(super) fn seal(&self, entropy: &Entropy, associated_data: &[u8], plaintext: &[u8]) -> Vec<u8> {
        let nonce = entropy.bytes::<NONCE_LENGTH>();
        let payload = Payload { msg: plaintext, aad: associated_data };
        #[allow(clippy::expect_used, reason = "the cipher refuses only messages of more than 256 GiB")]
        let ciphertext = self.cipher.encrypt(&XNonce::from(nonce), payload).expect("the message is short");
        let mut sealed = Vec::with_capacity(1 + NONCE_LENGTH + ciphertext.len());
        sealed.push(VERSION);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&ciphertext);
        sealed
    }

    /// Decrypts a secret; `None` if it was encrypted with another key or other associated data.
    pub(super) fn open(&self, associated_data: &[u8], sealed: &[u8]) -> Option<Secret> {
        let (version, rest) = sealed.split_first()?;
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_LENGTH>()?;
        if *version != VERSION {
            return None;
        }
        let plaintext =
            self.cipher.decrypt(&XNonce::from(*nonce), Payload { msg: ciphertext, aad: associated_data }).ok()?;
        String::from_utf8(plaintext).ok().map(Secret::new)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn opened(key: &Key, associated_data: &[u8], sealed: &[u8]) -> Option<String> {
        key.open(associated_data, sealed).map(|secret| secret.expose().to_owned())
    }

    proptest! {
        #[test]
        fn open_requires_same_key_and_associated_data(text in ".{0,200}", scope in "[a-z]{0,6}", name in "[a-z]{0,6}", flip in any::<prop::sample::Index>()) {
            let key = Key::new(&[7; 32]);
            let sealed = key.seal(&Entropy::seeded(1), &associated_data(&scope, &name), text.as_bytes());
            prop_assert_eq!(opened(&key, &associated_data(&scope, &name), &sealed), Some(text.clone()));
            prop_assert_eq!(opened(&Key::new(&[8; 32]), &associated_data(&scope, &name), &sealed), None);
            prop_assert_eq!(opened(&key, &associated_data(&format!("{scope}x"), &name), &sealed), None);
            let mut changed = sealed.clone();
            changed[flip.index(sealed.len())] ^= 1;
            prop_assert_eq!(opened(&key, &associated_data(&scope, &name), &changed), None);
            prop_assert_eq!(opened(&key, &associated_data(&scope, &name), &sealed[..flip.index(sealed.len())]), None);
        }
    }

    #[test]
    fn associated_data_is_unambiguous() {
        assert_ne!(associated_data("ab", "c"), associated_data("a", "bc"));
    }
}
