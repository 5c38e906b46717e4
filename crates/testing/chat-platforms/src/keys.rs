//! RSA keys that the fakes sign with: two of a platform, for key rotation, and one of a service account. Generating a key
//! is slow, so all fakes of a process share them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use agentd_base::Timestamp;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{CertificateParams, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::{Value, json};

/// Tolerated clock difference of tokens.
const LEEWAY: Duration = Duration::from_secs(300);

/// A key in all the forms in which it is published and used.
#[derive(Debug)]
pub struct FakeKey {
    pub id: String,
    pair: RsaKeyPair,
    pub(crate) private_pem: String,
    pub(crate) certificate_pem: String,
    /// As in a key set: base64 without padding.
    pub(crate) modulus: String,
    pub(crate) exponent: String,
}

static KEYS: LazyLock<[Arc<FakeKey>; 3]> =
    LazyLock::new(|| ["fake-key-0", "fake-key-1", "fake-key-2"].map(|id| Arc::new(generate(id))));

/// Returns the key that a platform signs with after this many rotations.
#[must_use]
pub fn platform_key(changes: usize) -> Arc<FakeKey> {
    let [first, second, _] = &*KEYS;
    Arc::clone(if changes.is_multiple_of(2) { first } else { second })
}

/// Returns the key of the service account.
#[must_use]
pub fn service_account_key() -> Arc<FakeKey> {
    let [.., last] = &*KEYS;
    Arc::clone(last)
}

impl FakeKey {
    /// Signs a token under RS256.
    #[must_use]
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_with_header(&json!({"alg": "RS256", "typ": "JWT", "kid": self.id}), claims)
    }

    /// Signs a token with any header.
    #[must_use]
    #[allow(clippy::expect_used, reason = "without its keys a fake is of no use")]
    pub fn sign_with_header(&self, header: &Value, claims: &Value) -> String {
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{header}.{claims}");
        let mut signature = vec![0; self.pair.public_modulus_len()];
        let random = SystemRandom::new();
        self.pair.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).expect("a signature");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Returns the claims of a token that this key signed under RS256 and that is valid now.
    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, self.pair.public_key());
        key.verify(signed.as_bytes(), &signature).ok()?;
        let (header, claims) = signed.split_once('.')?;
        let read = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
        let (header, claims) = (read(header)?, read(claims)?);
        let time = |claim: &str| {
            let seconds = claims[claim].as_i64()?;
            Some(Timestamp::from_micros(seconds.saturating_mul(1_000_000)))
        };
        let is_known = header["alg"] == "RS256" && header["kid"] == *self.id;
        let is_current = time("exp").is_some_and(|end| now <= end + LEEWAY);
        let has_begun = claims["nbf"].is_null() || time("nbf").is_some_and(|begin| begin <= now + LEEWAY);
        (is_known && is_current && has_begun).then_some(claims)
    }
}

#[allow(clippy::expect_used, reason = "without its keys a fake is of no use")]
fn generate(id: &str) -> FakeKey {
    let key = rcgen::KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a new key");
    let certificate =
        CertificateParams::new(Vec::<String>::new()).and_then(|params| params.self_signed(&key)).expect("signed");
    let pair = RsaKeyPair::from_pkcs8(key.serialized_der()).expect("the key just made");
    FakeKey {
        id: id.to_owned(),
        private_pem: pem("PRIVATE KEY", key.serialized_der()),
        certificate_pem: pem("CERTIFICATE", certificate.der()),
        modulus: URL_SAFE_NO_PAD.encode(pair.public_key().modulus().big_endian_without_leading_zero()),
        exponent: URL_SAFE_NO_PAD.encode(pair.public_key().exponent().big_endian_without_leading_zero()),
        pair,
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let mut pem = format!("-----BEGIN {label}-----\n");
    for (number, character) in STANDARD.encode(der).chars().enumerate() {
        if number > 0 && number.is_multiple_of(64) {
            pem.push('\n');
        }
        pem.push(character);
    }
    pem + &format!("\n-----END {label}-----\n")
}
