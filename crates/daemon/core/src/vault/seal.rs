//! Sealing: a version byte, a random nonce of 24 bytes, and the ciphertext with its tag. A random
//! nonce of that length may be drawn for every message (draft-irtf-cfrg-xchacha).

use agentd_base::{Entropy, Secret, sha256};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

const VERSION: u8 = 1;
const NONCE_LENGTH: usize = 24;

/// A key of 256 bits, ready for use. Its memory is wiped when it is dropped.
pub(super) struct Key {
    cipher: XChaCha20Poly1305,
    fingerprint: String,
    /// For hashes of what may hold secrets.
    hashing: [u8; 32],
}

/// What a sealed secret is bound to: moved to another place, it does not open.
pub(super) fn place(scope: &str, name: &str) -> Vec<u8> {
    let mut place = b"agentd secret v1\0".to_vec();
    // The length keeps `ab`/`c` apart from `a`/`bc`.
    place.extend_from_slice(&u32::try_from(scope.len()).unwrap_or(u32::MAX).to_le_bytes());
    place.extend_from_slice(scope.as_bytes());
    place.extend_from_slice(name.as_bytes());
    place
}

impl Key {
    pub(super) fn new(bytes: &[u8; 32]) -> Self {
        let mut input = b"agentd vault key fingerprint v1\0".to_vec();
        input.extend_from_slice(bytes);
        // The key is uniformly random, so its hash says nothing of it.
        let fingerprint = hex::encode(&sha256(&input)[..16]);
        let mut input = b"agentd hashing key v1\0".to_vec();
        input.extend_from_slice(bytes);
        Self { cipher: XChaCha20Poly1305::new(bytes.into()), fingerprint, hashing: sha256(&input) }
    }

    /// Another key, which says nothing of this one.
    pub(super) fn hashing(&self) -> [u8; 32] {
        self.hashing
    }

    pub(super) fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    pub(super) fn seal(&self, entropy: &Entropy, place: &[u8], plaintext: &[u8]) -> Vec<u8> {
        let nonce = entropy.bytes::<NONCE_LENGTH>();
        let payload = Payload { msg: plaintext, aad: place };
        #[allow(clippy::expect_used, reason = "the cipher refuses only messages of more than 256 GiB")]
        let ciphertext = self.cipher.encrypt(&XNonce::from(nonce), payload).expect("the message is short");
        let mut sealed = Vec::with_capacity(1 + NONCE_LENGTH + ciphertext.len());
        sealed.push(VERSION);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&ciphertext);
        sealed
    }

    /// `None` for whatever this key did not seal for this place.
    pub(super) fn open(&self, place: &[u8], sealed: &[u8]) -> Option<Secret> {
        let (version, rest) = sealed.split_first()?;
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_LENGTH>()?;
        if *version != VERSION {
            return None;
        }
        let plaintext = self.cipher.decrypt(&XNonce::from(*nonce), Payload { msg: ciphertext, aad: place }).ok()?;
        String::from_utf8(plaintext).ok().map(Secret::new)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn opened(key: &Key, place: &[u8], sealed: &[u8]) -> Option<String> {
        key.open(place, sealed).map(|secret| secret.expose().to_owned())
    }

    proptest! {
        #[test]
        fn opens_only_what_was_sealed_here(text in ".{0,200}", scope in "[a-z]{0,6}", name in "[a-z]{0,6}", flip in any::<prop::sample::Index>()) {
            let key = Key::new(&[7; 32]);
            let sealed = key.seal(&Entropy::seeded(1), &place(&scope, &name), text.as_bytes());
            prop_assert_eq!(opened(&key, &place(&scope, &name), &sealed), Some(text.clone()));
            prop_assert_eq!(opened(&Key::new(&[8; 32]), &place(&scope, &name), &sealed), None);
            prop_assert_eq!(opened(&key, &place(&format!("{scope}x"), &name), &sealed), None);
            let mut changed = sealed.clone();
            changed[flip.index(sealed.len())] ^= 1;
            prop_assert_eq!(opened(&key, &place(&scope, &name), &changed), None);
            prop_assert_eq!(opened(&key, &place(&scope, &name), &sealed[..flip.index(sealed.len())]), None);
        }
    }

    #[test]
    fn places_do_not_run_into_each_other() {
        assert_ne!(place("ab", "c"), place("a", "bc"));
    }
}
