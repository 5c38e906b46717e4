//! How a receiver knows who sent a delivery.
//!
//! `X-Svc-Signature: sha256=<hex>` is HMAC-SHA256 of the body, keyed with the secret. The three headers of Standard
//! Webhooks (<https://www.standardwebhooks.com>) sign id and time as well, which stops replays; their key is the
//! secret's bytes, or what stands in base64 behind `whsec_`.

use agentd_base::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
/// As inbound webhooks take them.
const MIN_CHARACTERS: usize = 8;
const MAX_CHARACTERS: usize = 1024;

/// What is wrong with a secret, as the end of a sentence.
pub(in crate::hooks) fn check_secret(secret: &Secret) -> Result<(), String> {
    let text = secret.expose();
    if text.len() < MIN_CHARACTERS || text.len() > MAX_CHARACTERS {
        return Err(format!(
            "must have {MIN_CHARACTERS} to {MAX_CHARACTERS} bytes; 32 random ones or more are recommended"
        ));
    }
    match text.strip_prefix(PREFIX) {
        Some(coded) if STANDARD.decode(coded).is_err() => Err("must be base64 behind `whsec_`".to_owned()),
        _ => Ok(()),
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    // HMAC takes keys of any length, so there is nothing that could be refused.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

/// The value of `X-Svc-Signature`.
#[must_use]
pub(in crate::hooks) fn svc_signature(secret: &Secret, body: &[u8]) -> String {
    format!("sha256={}", hex::encode(mac(secret.expose().as_bytes(), &[body])))
}

/// The value of `webhook-signature`.
#[must_use]
pub(in crate::hooks) fn standard_signature(secret: &Secret, id: &str, timestamp_seconds: i64, body: &[u8]) -> String {
    let text = secret.expose();
    let decoded = text.strip_prefix(PREFIX).and_then(|coded| STANDARD.decode(coded).ok());
    let key = decoded.unwrap_or_else(|| text.as_bytes().to_vec());
    let timestamp = timestamp_seconds.to_string();
    let signature = mac(&key, &[id.as_bytes(), b".", timestamp.as_bytes(), b".", body]);
    format!("v1,{}", STANDARD.encode(signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_the_published_examples() {
        // RFC 4231, test case 2.
        let secret = Secret::new("Jefe".to_owned());
        assert_eq!(
            svc_signature(&secret, b"what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        // The example of the Standard Webhooks libraries.
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());
        assert_eq!(
            standard_signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn short_and_broken_secrets_are_refused() {
        for (text, is_good) in [
            ("short", false),
            ("0123456", false),
            ("01234567", true),
            ("whsec_not base64!!", false),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", true),
        ] {
            assert_eq!(check_secret(&Secret::new(text.to_owned())).is_ok(), is_good, "{text}");
        }
    }
}
