//! The signature of a request (<https://docs.slack.dev/authentication/verifying-requests-from-slack>).

use agentd_base::{Secret, Timestamp};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::webhook::{Rejection, WebhookRequest};

pub(super) fn verify(secret: Option<&Secret>, request: &WebhookRequest, now: Timestamp) -> Result<(), Rejection> {
    let secret = secret.filter(|secret| !secret.is_empty()).ok_or(Rejection::NotSetUp)?;
    let time = request.recent_time("x-slack-request-timestamp", now)?;
    let signature = request.header("x-slack-signature").ok_or(Rejection::Unverified("it is not signed"))?;
    let digest = signature.strip_prefix("v0=").and_then(|digest| hex::decode(digest).ok());
    let digest = digest.ok_or(Rejection::Unverified("its signature is of another kind"))?;
    // Compares in constant time.
    let is_right = mac(secret, time, &request.body).verify_slice(&digest).is_ok();
    if is_right { Ok(()) } else { Err(Rejection::Unverified("its signature is wrong")) }
}

/// Over the version of the scheme, the time as it stands in the header, and the body.
pub(super) fn mac(secret: &Secret, time: &str, body: &[u8]) -> Hmac<Sha256> {
    #[allow(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).expect("any key will do");
    mac.chain_update(b"v0:").chain_update(time).chain_update(b":").chain_update(body)
}
