//! Verification of requests, and the webhook handshake.

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use http::Method;

use super::Whatsapp;
use crate::webhook::{Received, Rejection, WebhookAnswer, WebhookRequest, is_secret};

impl Whatsapp {
    /// Answers the handshake by which the platform verifies the webhook URL.
    pub(super) fn answer_handshake(&self, request: &WebhookRequest) -> Result<Received, Rejection> {
        let token = self.config.verify_token.as_ref().filter(|token| !token.is_empty()).ok_or(Rejection::NotSetUp)?;
        if query_value(&request.query, "hub.mode").as_deref() != Some("subscribe") {
            return Err(Rejection::Unverified("the request is not a verification handshake"));
        }
        let given_token = query_value(&request.query, "hub.verify_token").unwrap_or_default();
        if !is_secret(&given_token, token) {
            return Err(Rejection::Unverified("the verify token is wrong"));
        }
        let challenge = query_value(&request.query, "hub.challenge")
            .ok_or_else(|| Rejection::Malformed("the handshake has no `hub.challenge`".to_owned()))?;
        Ok(Received::nothing(WebhookAnswer::text(challenge)))
    }

    pub(super) fn verify(&self, request: &WebhookRequest) -> Result<(), Rejection> {
        let secret = self.config.app_secret.as_ref().filter(|secret| !secret.is_empty()).ok_or(Rejection::NotSetUp)?;
        // Without it, messages to other numbers of the app could not be told apart.
        if self.config.phone_number_id.is_none() {
            return Err(Rejection::NotSetUp);
        }
        if request.method != Method::POST {
            return Err(Rejection::Unverified("only GET and POST are taken"));
        }
        let signature =
            request.header("x-hub-signature-256").ok_or(Rejection::Unverified("the signature header is missing"))?;
        let digest = signature.strip_prefix("sha256=").and_then(|digest| hex::decode(digest).ok());
        let digest = digest.ok_or(Rejection::Unverified("the signature does not have the form sha256=<hex>"))?;
        let key = hmac::Key::new(HMAC_SHA256, secret.expose().as_bytes());
        hmac::verify(&key, &request.body, &digest).map_err(|_| Rejection::Unverified("the signature is wrong"))
    }
}

/// Returns the value of a query parameter; `None` if it is missing or repeated.
fn query_value(query: &str, name: &str) -> Option<String> {
    let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(field, _)| field == name);
    let (_, value) = values.next()?;
    values.next().is_none().then(|| value.into_owned())
}
