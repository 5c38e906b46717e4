//! Web Push as bytes: what a message is encrypted to (RFC 8291, over RFC 8188), and how a push service knows who
//! sends it (RFC 8292).
//!
//! Invariants
//! - What is encrypted is read by the browser alone: the push service learns its length and nothing else.
//! - Each message has a key pair and a salt of its own, from the caller's randomness.
//! - A public key that is no point on P-256 is no key, and is refused before anything is sent to it.
//!
//! Deliberately absent: sending, and keeping keys.

mod message;
mod vapid;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub use message::{MAX_CONTENT, Receiver};
pub use vapid::VapidKey;

/// An uncompressed point: `0x04`, x, y.
const POINT: usize = 65;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    #[error("must be a public key on the curve P-256: 65 bytes, in base64url")]
    PublicKey,
    #[error("must be 16 bytes, in base64url")]
    AuthSecret,
    #[error("the message has {bytes} bytes, more than the {MAX_CONTENT} that every push service takes")]
    TooLarge { bytes: usize },
    #[error("the key that this daemon signs push messages with cannot be used")]
    SigningKey,
    #[error("the message could not be encrypted")]
    Encryption,
}

/// Base64url as browsers write it, without padding; with padding it is read, too.
fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    // Nothing longer is worth decoding.
    (text.len() <= 2 * N + 4).then_some(())?;
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?.try_into().ok()
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// HKDF (RFC 5869) with SHA-256, whose first block is enough.
fn hkdf<const N: usize>(salt: &[u8], secret: &[u8], info: &[&[u8]]) -> [u8; N] {
    const { assert!(N <= 32) };
    let extracted = sign(&Key::new(HMAC_SHA256, salt), secret);
    let info = [&info.concat()[..], &[1]].concat();
    let block = sign(&Key::new(HMAC_SHA256, extracted.as_ref()), &info);
    let mut key = [0; N];
    key.copy_from_slice(&block.as_ref()[..N]);
    key
}
