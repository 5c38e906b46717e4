//! The signature of a request
//! (<https://docs.discord.com/developers/interactions/overview#setting-up-an-endpoint>).

use agentd_base::Timestamp;
use ed25519_dalek::{Signature, VerifyingKey};

use crate::webhook::{Rejection, WebhookRequest};

/// 32 bytes in hexadecimal characters.
pub(super) fn key(text: &str) -> Option<VerifyingKey> {
    let bytes: [u8; 32] = hex::decode(text).ok()?.try_into().ok()?;
    VerifyingKey::from_bytes(&bytes).ok()
}

pub(super) fn verify(key: Option<&VerifyingKey>, request: &WebhookRequest, now: Timestamp) -> Result<(), Rejection> {
    let key = key.ok_or(Rejection::NotSetUp)?;
    let time = request.recent_time("x-signature-timestamp", now)?;
    let signature = request.header("x-signature-ed25519").ok_or(Rejection::Unverified("it is not signed"))?;
    let signature = hex::decode(signature).ok().and_then(|bytes| Signature::from_slice(&bytes).ok());
    let signature = signature.ok_or(Rejection::Unverified("its signature is of another kind"))?;
    let signed = [time.as_bytes(), &request.body].concat();
    key.verify_strict(&signed, &signature).map_err(|_| Rejection::Unverified("its signature is wrong"))
}
