//! Verification of request signatures
//! (<https://docs.discord.com/developers/interactions/overview#setting-up-an-endpoint>).

use agentd_base::Timestamp;
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};

use crate::webhook::{Rejection, WebhookRequest};

/// Encoded Ed25519 public key.
pub(super) type PublicKey = [u8; 32];

/// Encodings of the points of small order, without the sign bit. With such a key any signature can be forged (RFC 8032,
/// section 8.9), and the library accepts it.
const SMALL_ORDER: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

/// Parses a key of 32 hexadecimal bytes.
pub(super) fn parse_key(text: &str) -> Option<PublicKey> {
    hex::decode(text).ok()?.try_into().ok()
}

pub(super) fn verify(key: Option<&PublicKey>, request: &WebhookRequest, now: Timestamp) -> Result<(), Rejection> {
    let key = key.ok_or(Rejection::NotSetUp)?;
    let time = request.recent_time("x-signature-timestamp", now)?;
    let signature =
        request.header("x-signature-ed25519").ok_or(Rejection::Unverified("the signature header is missing"))?;
    let signature = hex::decode(signature).ok().filter(|signature| signature.len() == 64);
    let signature = signature.ok_or(Rejection::Unverified("the signature is malformed"))?;
    let signed = [time.as_bytes(), &request.body].concat();
    let is_right = !has_small_order(*key) && UnparsedPublicKey::new(&ED25519, key).verify(&signed, &signature).is_ok();
    if is_right { Ok(()) } else { Err(Rejection::Unverified("the signature is wrong")) }
}

fn has_small_order(mut key: PublicKey) -> bool {
    key[31] &= 0x7f;
    SMALL_ORDER.contains(&hex::encode(key).as_str())
}
