//! Verification of request signatures (<https://docs.slack.dev/authentication/verifying-requests-from-slack>).

use agentd_base::{Secret, Timestamp};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key, Tag};

use crate::webhook::{Rejection, WebhookRequest};

pub(super) fn verify(secret: Option<&Secret>, request: &WebhookRequest, now: Timestamp) -> Result<(), Rejection> {
    let secret = secret.filter(|secret| !secret.is_empty()).ok_or(Rejection::NotSetUp)?;
    let time = request.recent_time("x-slack-request-timestamp", now)?;
    let signature =
        request.header("x-slack-signature").ok_or(Rejection::Unverified("the signature header is missing"))?;
    let digest = signature.strip_prefix("v0=").and_then(|digest| hex::decode(digest).ok());
    let digest = digest.ok_or(Rejection::Unverified("the signature is malformed"))?;
    let is_right = verify_slices_are_equal(mac(secret, time, &request.body).as_ref(), &digest).is_ok();
    if is_right { Ok(()) } else { Err(Rejection::Unverified("the signature is wrong")) }
}

/// Computes the MAC over the scheme version, the timestamp as in the header, and the body.
fn mac(secret: &Secret, time: &str, body: &[u8]) -> Tag {
    let mut mac = Context::with_key(&Key::new(HMAC_SHA256, secret.expose().as_bytes()));
    [&b"v0:"[..], time.as_bytes(), b":", body].into_iter().for_each(|part| mac.update(part));
    mac.sign()
}
