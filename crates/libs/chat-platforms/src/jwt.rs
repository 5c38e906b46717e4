//! JSON Web Tokens (RFC 7519) with RS256, the only algorithm that Microsoft and Google use here.
//!
//! Invariants
//! - No claim is trusted before the signature is verified, except issuer and key ID for the key lookup.
//! - A token without expiry is rejected. Clock skew of up to five minutes is accepted.
//!
//! Deliberately absent: all other algorithms, above all `none`.

use std::fmt;
use std::time::Duration;

use agentd_base::Timestamp;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};

use crate::webhook::{Rejection, WebhookRequest};

const LEEWAY: Duration = Duration::from_secs(300);
/// Maximum token size in bytes; platform tokens have about 1 KB.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Returns the bearer token of a request.
pub(crate) fn bearer(request: &WebhookRequest) -> Result<&str, Rejection> {
    let value = request.header("authorization").ok_or(Rejection::Unverified("the Authorization header is missing"))?;
    let (scheme, token) = value.split_once(' ').unwrap_or_default();
    if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= MAX_TOKEN_BYTES {
        Ok(token)
    } else {
        Err(Rejection::Unverified("the Authorization header contains no bearer token"))
    }
}

/// Returns the ID of the signing key.
pub(crate) fn key_id(token: &str) -> Result<String, Rejection> {
    let header = jsonwebtoken::decode_header(token).map_err(|_| Rejection::Unverified("the token is malformed"))?;
    if header.alg != Algorithm::RS256 {
        return Err(Rejection::Unverified("the token is not signed with RS256"));
    }
    // No critical extension is supported (RFC 7515, section 4.1.11).
    if header.crit.is_some() {
        return Err(Rejection::Unverified("the token has unsupported critical extensions"));
    }
    header.kid.ok_or(Rejection::Unverified("the token has no key id"))
}

/// Returns the unverified issuer of a token, used only to select the key source.
pub(crate) fn claimed_issuer(token: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims["iss"].as_str().map(str::to_owned)
}

/// Verifies signature and validity period, and returns the claims.
pub(crate) fn verify(token: &str, key: &DecodingKey, now: Timestamp) -> Result<Value, Rejection> {
    let mut validation = Validation::new(Algorithm::RS256);
    // Expiry is checked against `now` rather than the system clock; callers check the other claims.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let claims = jsonwebtoken::decode::<Value>(token, key, &validation)
        .map_err(|_| Rejection::Unverified("the signature of the token is invalid"))?
        .claims;
    let end = seconds(&claims["exp"]).ok_or(Rejection::Unverified("the token has no expiry"))?;
    if now > end + LEEWAY {
        return Err(Rejection::Unverified("the token has expired"));
    }
    let begin = seconds(&claims["nbf"]);
    if !claims["nbf"].is_null() && begin.is_none_or(|begin| now + LEEWAY < begin) {
        return Err(Rejection::Unverified("the token is not valid yet"));
    }
    Ok(claims)
}

fn seconds(value: &Value) -> Option<Timestamp> {
    value.as_i64().map(|seconds| Timestamp::from_micros(seconds.saturating_mul(1_000_000)))
}

/// RSA key that signs tokens.
pub(crate) struct SigningKey {
    pair: RsaKeyPair,
    id: Option<String>,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Reads a PKCS #8 key in PEM.
    pub(crate) fn from_pem(pem: &str, id: Option<String>) -> Option<Self> {
        let der = pem_contents(pem, "PRIVATE KEY")?;
        Some(Self { pair: RsaKeyPair::from_pkcs8(&der).ok()?, id })
    }

    pub(crate) fn sign(&self, claims: &Value) -> Option<String> {
        let mut header = json!({"alg": "RS256", "typ": "JWT"});
        if let Some(id) = &self.id {
            header["kid"] = json!(id);
        }
        let [header, claims] = [&header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{header}.{claims}");
        let mut signature = vec![0; self.pair.public_modulus_len()];
        self.pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).ok()?;
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Returns the contents of the first PEM section with this label.
pub(crate) fn pem_contents(pem: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let body: String = body.split_whitespace().collect();
    STANDARD.decode(body).ok()
}
