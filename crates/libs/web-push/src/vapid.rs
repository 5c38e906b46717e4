//! VAPID (RFC 8292): the daemon's key pair, to whose public key browsers bind their subscriptions.

use std::fmt;
use std::time::Duration;

use agentd_base::{Entropy, Secret, Timestamp};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::json;

use crate::message::{private_key, public_key};
use crate::{POINT_BYTES, PushError, decode, encode};

/// Token lifetime. RFC 8292, section 2 permits 24 hours; the margin allows for clock differences.
const TOKEN_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// Key pair with which a daemon signs push requests.
pub struct VapidKey {
    pair: EcdsaKeyPair,
    public_key: [u8; POINT_BYTES],
}

impl fmt::Debug for VapidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VapidKey")
    }
}

impl VapidKey {
    /// Generates a private key in the format that [`Self::open`] reads.
    ///
    /// # Errors
    /// [`PushError::Encryption`] if no valid key could be generated.
    pub fn generate(entropy: &Entropy) -> Result<Secret, PushError> {
        private_key(entropy).map(|(_, bytes)| Secret::new(encode(bytes)))
    }

    /// Opens a private key.
    ///
    /// # Errors
    /// [`PushError::SigningKey`] if the key is invalid.
    pub fn open(secret: &Secret) -> Result<Self, PushError> {
        let bytes: [u8; 32] = decode(secret.expose()).ok_or(PushError::SigningKey)?;
        let private = PrivateKey::from_private_key(&ECDH_P256, &bytes).map_err(|_| PushError::SigningKey)?;
        let public_key = public_key(&private)?;
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, &bytes, &public_key);
        Ok(Self { pair: pair.map_err(|_| PushError::SigningKey)?, public_key })
    }

    /// Returns the `applicationServerKey` for browser subscriptions, in base64url.
    #[must_use]
    pub fn public_key(&self) -> String {
        encode(self.public_key)
    }

    /// Returns the `Authorization` header for a push service. `audience` is the origin of the service; `contact` is a
    /// `mailto:` or `https:` URL of the operator.
    ///
    /// # Errors
    /// [`PushError::SigningKey`] if signing fails.
    pub fn authorization(&self, audience: &str, contact: &str, now: Timestamp) -> Result<Secret, PushError> {
        let expires = (now + TOKEN_LIFETIME).to_jiff().as_second();
        let claims = json!({"aud": audience, "exp": expires, "sub": contact});
        let signed =
            format!("{}.{}", encode(json!({"typ": "JWT", "alg": "ES256"}).to_string()), encode(claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).map_err(|_| PushError::SigningKey)?;
        Ok(Secret::new(format!("vapid t={signed}.{}, k={}", encode(signature), self.public_key())))
    }
}

#[cfg(test)]
mod tests {
    use agentd_testing_web_push::claims_of;

    use super::*;

    #[test]
    fn token_contains_audience_and_expires_within_a_day() {
        let now = Timestamp::parse("2026-01-05T09:00:00.000Z").unwrap();
        let key = VapidKey::open(&VapidKey::generate(&Entropy::seeded(1)).unwrap()).unwrap();
        let header = key.authorization("https://push.example", "mailto:ada@example.org", now).unwrap();
        let claims = claims_of(header.expose(), &key.public_key()).unwrap();
        let expected = json!({"aud": "https://push.example", "exp": 1_767_646_800, "sub": "mailto:ada@example.org"});
        assert_eq!(claims, expected);
        let other = VapidKey::open(&VapidKey::generate(&Entropy::seeded(2)).unwrap()).unwrap();
        assert_eq!(claims_of(header.expose(), &other.public_key()), None);
        assert_eq!(claims_of(&header.expose().replace("vapid t=", "vapid t=x"), &key.public_key()), None);
        assert_eq!(format!("{key:?} {header:?}"), "VapidKey Secret(…)");
    }

    #[test]
    fn invalid_keys_are_rejected() {
        for bad in ["", "AAAA", &encode([0; 32]), &encode([255; 32]), &encode([1; 33])] {
            assert_eq!(VapidKey::open(&Secret::new(bad.to_owned())).unwrap_err(), PushError::SigningKey, "{bad}");
        }
    }
}
