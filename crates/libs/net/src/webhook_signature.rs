//! Webhook signatures: creation and verification with one secret.
//!
//! `X-Svc-Signature: sha256=<hex>` is HMAC-SHA256 of the body, with the secret's text as key. Standard Webhooks
//! (<https://www.standardwebhooks.com>) sign `id.timestamp.body`, which prevents replays; their key is the base64 data
//! after `whsec_`, or the secret's text without that prefix. Digests are compared in constant time.
//!
//! Out of scope: reading headers, and checking the age of a message.

use agentd_base::Secret;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key, Tag};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Prefix of a secret whose remainder is base64.
pub const SECRET_PREFIX: &str = "whsec_";
/// Maximum number of signatures per message. A sender that rotates its secret signs with the old and the new one.
const MAX_SIGNATURES: usize = 16;

/// Signed content in the scheme of Standard Webhooks.
#[derive(Debug, Clone, Copy)]
pub struct SignedMessage<'m> {
    pub id: &'m str,
    /// Timestamp as in the header: seconds since 1970.
    pub timestamp: &'m str,
    pub body: &'m [u8],
}

/// Returns the value of `X-Svc-Signature`.
#[must_use]
pub fn sign_body(secret: &Secret, body: &[u8]) -> String {
    format!("sha256={}", hex::encode(body_mac(secret, body)))
}

/// Verifies the value of `X-Svc-Signature`. Only lower case is accepted.
#[must_use]
pub fn verify_body(secret: &Secret, body: &[u8], signature: &str) -> bool {
    let digest =
        signature.strip_prefix("sha256=").filter(|digest| !digest.bytes().any(|byte| byte.is_ascii_uppercase()));
    let digest = digest.and_then(|digest| hex::decode(digest).ok());
    digest.is_some_and(|digest| is_equal(&body_mac(secret, body), &digest))
}

/// Returns the value of `webhook-signature`.
#[must_use]
pub fn sign_message(secret: &Secret, message: SignedMessage<'_>) -> String {
    format!("v1,{}", STANDARD.encode(message_mac(secret, message)))
}

/// Verifies that one of the signatures in the value of `webhook-signature` is valid.
#[must_use]
pub fn verify_message(secret: &Secret, message: SignedMessage<'_>, signatures: &str) -> bool {
    let mac = message_mac(secret, message);
    let known = signatures.split(' ').filter_map(|entry| entry.strip_prefix("v1,")).take(MAX_SIGNATURES);
    known.filter_map(|encoded| STANDARD.decode(encoded).ok()).any(|digest| is_equal(&mac, &digest))
}

/// Whether the text after [`SECRET_PREFIX`], if present, is a valid key.
#[must_use]
pub fn is_valid_secret(text: &str) -> bool {
    text.strip_prefix(SECRET_PREFIX).is_none_or(|encoded| STANDARD.decode(encoded).is_ok_and(|key| !key.is_empty()))
}

fn body_mac(secret: &Secret, body: &[u8]) -> Tag {
    mac(secret.expose().as_bytes(), &[body])
}

fn message_mac(secret: &Secret, message: SignedMessage<'_>) -> Tag {
    let text = secret.expose();
    let decoded = text.strip_prefix(SECRET_PREFIX).and_then(|encoded| STANDARD.decode(encoded).ok());
    let key = decoded.as_deref().unwrap_or(text.as_bytes());
    mac(key, &[message.id.as_bytes(), b".", message.timestamp.as_bytes(), b".", message.body])
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Tag {
    let mut mac = Context::with_key(&Key::new(HMAC_SHA256, key));
    parts.iter().for_each(|part| mac.update(part));
    mac.sign()
}

/// Compares in constant time.
fn is_equal(mac: &Tag, digest: &[u8]) -> bool {
    verify_slices_are_equal(mac.as_ref(), digest).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    const BODY: &[u8] = b"what do ya want for nothing?";

    /// RFC 4231, test case 2.
    #[test]
    fn body_signature_is_hmac_sha256_in_lower_case_hex() {
        let right = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(sign_body(&secret("Jefe"), BODY), right);
        assert!(verify_body(&secret("Jefe"), BODY, right) && !verify_body(&secret("jefe"), BODY, right));
        for wrong in [
            "",
            "sha256=",
            &right[..right.len() - 1],
            &right[..right.len() - 2],
            &format!("{right}0"),
            &format!("{right}00"),
            &right.to_ascii_uppercase().replace("SHA256", "sha256"),
            &right.replace("sha256=", ""),
            &right.replace("sha256=", "sha1="),
            &right.replace("5bdc", "zzzz"),
            &format!("{right}, {right}"),
        ] {
            assert!(!verify_body(&secret("Jefe"), BODY, wrong), "{wrong}");
        }
    }

    /// Example of the Standard Webhooks libraries.
    #[test]
    fn message_signature_matches_standard_webhooks() {
        let secret = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let message = SignedMessage {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp: "1614265330",
            body: br#"{"test": 2432232314}"#,
        };
        let right = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(sign_message(&secret, message), right);
        assert!(verify_message(&secret, message, right));
        assert!(verify_message(&secret, message, &format!("v1,AAAA v2,x {right}")));
        for other in [
            SignedMessage { id: "msg_2", ..message },
            SignedMessage { timestamp: "1614265331", ..message },
            SignedMessage { body: b"{}", ..message },
        ] {
            assert!(!verify_message(&secret, other, right), "{other:?}");
        }
        let many = "v1,AAAA ".repeat(MAX_SIGNATURES) + right;
        assert!(!verify_message(&secret, message, &many));
    }

    #[test]
    fn key_is_decoded_from_base64() {
        let message = SignedMessage { id: "m", timestamp: "1", body: b"" };
        let signed = |text: &str| sign_message(&secret(text), message);
        assert_eq!(signed("whsec_AAEC"), signed("\u{0}\u{1}\u{2}"));
        assert!(is_valid_secret("whsec_AAEC") && is_valid_secret("plain text"));
        assert!(!is_valid_secret("whsec_") && !is_valid_secret("whsec_not base64!"));
    }

    proptest! {
        #[test]
        fn other_signatures_are_rejected(text in "[ -~]{0,80}", key in "[ -~]{0,40}") {
            let message = SignedMessage { id: "m", timestamp: "1", body: BODY };
            prop_assert!(!verify_body(&secret(&key), BODY, &text));
            prop_assert!(!verify_message(&secret(&key), message, &text));
        }
    }
}
