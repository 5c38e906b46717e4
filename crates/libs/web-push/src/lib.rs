//! Web Push encoding: message encryption (RFC 8291, based on RFC 8188) and sender identification (RFC 8292, VAPID).
//!
//! Invariants
//! - Only the browser can decrypt a message; the push service learns only its length.
//! - Each message has its own key pair and salt, generated from the caller's entropy source.
//! - A public key that is not a point on P-256 is rejected before anything is sent to it.
//!
//! Deliberately absent: sending, and key storage.

mod message;
mod vapid;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub use message::{MAX_CONTENT_BYTES, Receiver};
pub use vapid::VapidKey;

/// Length of an uncompressed point: `0x04`, x, y.
const POINT_BYTES: usize = 65;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    #[error("must be a public key on the curve P-256: 65 bytes, in base64url")]
    PublicKey,
    #[error("must be 16 bytes, in base64url")]
    AuthSecret,
    #[error("the message has {bytes} bytes, more than the {MAX_CONTENT_BYTES} that every push service takes")]
    TooLarge { bytes: usize },
    #[error("the key that this daemon signs push messages with cannot be used")]
    SigningKey,
    #[error("the message could not be encrypted")]
    Encryption,
}

/// Decodes unpadded base64url as written by browsers; padding is accepted.
fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    // Longer input cannot be valid.
    (text.len() <= 2 * N + 4).then_some(())?;
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?.try_into().ok()
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// HKDF (RFC 5869) with SHA-256, limited to the first block.
fn hkdf<const N: usize>(salt: &[u8], secret: &[u8], info: &[&[u8]]) -> [u8; N] {
    const { assert!(N <= 32) };
    let extracted = sign(&Key::new(HMAC_SHA256, salt), secret);
    let info = [&info.concat()[..], &[1]].concat();
    let block = sign(&Key::new(HMAC_SHA256, extracted.as_ref()), &info);
    let mut key = [0; N];
    key.copy_from_slice(&block.as_ref()[..N]);
    key
}
