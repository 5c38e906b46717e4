//! Encryption of messages for a browser.

use std::fmt;

use agentd_base::Entropy;
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};

use crate::{POINT_BYTES, PushError, decode, hkdf};

/// Record size that every push service must accept (RFC 8030, section 7.2).
const RECORD_BYTES: u32 = 4096;
const TAG_BYTES: usize = 16;
/// Header length: salt, record size, key length and key.
const HEADER_BYTES: usize = 16 + 4 + 1 + POINT_BYTES;
/// Maximum content length in bytes; with header, delimiter and tag it fills one record.
pub const MAX_CONTENT_BYTES: usize = RECORD_BYTES as usize - HEADER_BYTES - TAG_BYTES - 1;
/// Delimiter after the content of the last record.
const LAST_RECORD_DELIMITER: u8 = 2;

/// Keys of a browser subscription, to which messages are encrypted.
#[derive(Clone)]
pub struct Receiver {
    public_key: [u8; POINT_BYTES],
    auth_secret: [u8; 16],
}

/// Omits both keys.
impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}

/// Content encryption key and nonce derived from the shared secret.
struct MessageKeys {
    key: LessSafeKey,
    nonce: [u8; 12],
}

impl MessageKeys {
    fn derive(
        shared: &[u8],
        auth_secret: &[u8],
        receiver: &[u8],
        sender: &[u8],
        salt: &[u8],
    ) -> Result<Self, PushError> {
        let input: [u8; 32] = hkdf(auth_secret, shared, &[b"WebPush: info\0", receiver, sender]);
        let key: [u8; 16] = hkdf(salt, &input, &[b"Content-Encoding: aes128gcm\0"]);
        let nonce = hkdf(salt, &input, &[b"Content-Encoding: nonce\0"]);
        let key = UnboundKey::new(&AES_128_GCM, &key).map_err(|_| PushError::Encryption)?;
        Ok(Self { key: LessSafeKey::new(key), nonce })
    }
}

/// Generates a private key. Almost all random byte strings are valid.
pub(crate) fn private_key(entropy: &Entropy) -> Result<(PrivateKey, [u8; 32]), PushError> {
    for _ in 0..8 {
        let bytes = entropy.bytes();
        if let Ok(key) = PrivateKey::from_private_key(&ECDH_P256, &bytes) {
            return Ok((key, bytes));
        }
    }
    Err(PushError::Encryption)
}

pub(crate) fn public_key(private: &PrivateKey) -> Result<[u8; POINT_BYTES], PushError> {
    let public = private.compute_public_key().map_err(|_| PushError::Encryption)?;
    public.as_ref().try_into().map_err(|_| PushError::Encryption)
}

impl Receiver {
    /// Parses `p256dh`.
    ///
    /// # Errors
    /// [`PushError::PublicKey`] if it is not a point on the curve.
    fn point(text: &str, entropy: &Entropy) -> Result<[u8; POINT_BYTES], PushError> {
        let point: [u8; POINT_BYTES] =
            decode(text).filter(|point: &[u8; POINT_BYTES]| point[0] == 4).ok_or(PushError::PublicKey)?;
        // A key agreement checks whether the point is on the curve.
        let (key, _) = private_key(entropy)?;
        agree(&key, UnparsedPublicKey::new(&ECDH_P256, point), PushError::PublicKey, |_| Ok(()))?;
        Ok(point)
    }

    /// Parses `p256dh` and `auth`.
    ///
    /// # Errors
    /// Error of each invalid key.
    pub fn parse(p256dh: &str, auth: &str, entropy: &Entropy) -> Result<Self, (Option<PushError>, Option<PushError>)> {
        match (Self::point(p256dh, entropy), decode(auth).ok_or(PushError::AuthSecret)) {
            (Ok(public_key), Ok(auth_secret)) => Ok(Self { public_key, auth_secret }),
            (public_key, auth_secret) => Err((public_key.err(), auth_secret.err())),
        }
    }

    /// Encrypts content and returns the request body for the push service, with the content coding `aes128gcm`.
    ///
    /// # Errors
    /// [`PushError::TooLarge`], or [`PushError::Encryption`] if encryption fails.
    pub fn encrypt(&self, content: &[u8], entropy: &Entropy) -> Result<Vec<u8>, PushError> {
        let (key, _) = private_key(entropy)?;
        self.encrypt_with(&key, &entropy.bytes(), content)
    }

    fn encrypt_with(&self, own: &PrivateKey, salt: &[u8; 16], content: &[u8]) -> Result<Vec<u8>, PushError> {
        if content.len() > MAX_CONTENT_BYTES {
            return Err(PushError::TooLarge { bytes: content.len() });
        }
        let sender = public_key(own)?;
        let receiver = UnparsedPublicKey::new(&ECDH_P256, self.public_key);
        let keys = agree(own, receiver, PushError::PublicKey, |shared| {
            MessageKeys::derive(shared, &self.auth_secret, &self.public_key, &sender, salt)
        })?;
        let mut record = [content, &[LAST_RECORD_DELIMITER]].concat();
        let nonce = Nonce::assume_unique_for_key(keys.nonce);
        keys.key.seal_in_place_append_tag(nonce, Aad::empty(), &mut record).map_err(|_| PushError::Encryption)?;
        let length = [u8::try_from(POINT_BYTES).unwrap_or_default()];
        Ok([&salt[..], &RECORD_BYTES.to_be_bytes(), &length, &sender, &record].concat())
    }
}

#[cfg(test)]
mod tests {
    use agentd_testing_web_push::FakeBrowser;
    use proptest::prelude::*;

    use super::*;
    use crate::encode;

    // RFC 8291, appendix A.
    const CONTENT: &[u8] = b"When I grow up, I want to be a watermelon";
    const SENDER: &str = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw";
    const RECEIVER_PRIVATE: &str = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94";
    const RECEIVER: &str = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";
    const SALT: &str = "DGv6ra1nlYgDCS1FRnbzlw";
    const ENCRYPTED: &str = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6\
                             TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_\
                             Qulcy4a-fN";

    #[test]
    fn rfc_8291_example_is_reproduced() {
        let entropy = Entropy::seeded(1);
        let receiver = Receiver::parse(RECEIVER, AUTH, &entropy).unwrap();
        let sender = PrivateKey::from_private_key(&ECDH_P256, &decode::<32>(SENDER).unwrap()).unwrap();
        let encrypted = receiver.encrypt_with(&sender, &decode(SALT).unwrap(), CONTENT).unwrap();
        assert_eq!(encode(&encrypted), ENCRYPTED);
        let browser = FakeBrowser::with_keys(&decode(RECEIVER_PRIVATE).unwrap(), decode(AUTH).unwrap());
        assert_eq!(browser.p256dh(), RECEIVER);
        assert_eq!(browser.read(&encrypted).as_deref(), Some(CONTENT));
    }

    #[test]
    fn invalid_keys_are_rejected_individually() {
        let entropy = Entropy::seeded(1);
        let off_the_curve = encode([&[4][..], &[1; 64]].concat());
        let hybrid = encode([&[6][..], &decode::<65>(RECEIVER).unwrap()[1..]].concat());
        let infinity = encode([0]);
        for bad in ["", "x", "=", &off_the_curve, &hybrid, &infinity, &RECEIVER[..86], &RECEIVER.repeat(9), AUTH] {
            let refused = Receiver::parse(bad, AUTH, &entropy).unwrap_err();
            assert_eq!(refused, (Some(PushError::PublicKey), None), "{bad}");
        }
        for bad in ["", "AAAA", "BTBZMqHH6r4Tts7J_aSIggAA", "BTBZMqHH6r4Tts7J/aSIgg", RECEIVER] {
            let refused = Receiver::parse(RECEIVER, bad, &entropy).unwrap_err();
            assert_eq!(refused, (None, Some(PushError::AuthSecret)), "{bad}");
        }
        assert!(Receiver::parse(&format!("{RECEIVER}="), &format!("{AUTH}=="), &entropy).is_ok());
        assert!(!format!("{:?}", Receiver::parse(RECEIVER, AUTH, &entropy)).contains("BTBZ"));
    }

    #[test]
    fn message_fills_at_most_one_record() {
        let (entropy, browser) = (Entropy::seeded(1), FakeBrowser::new(&Entropy::seeded(2)));
        let receiver = Receiver::parse(&browser.p256dh(), &browser.auth(), &entropy).unwrap();
        let full = receiver.encrypt(&[7; MAX_CONTENT_BYTES], &entropy).unwrap();
        assert_eq!(full.len(), 4096);
        assert_eq!(browser.read(&full).unwrap(), [7; MAX_CONTENT_BYTES]);
        let refused = receiver.encrypt(&[7; MAX_CONTENT_BYTES + 1], &entropy).unwrap_err();
        assert_eq!(refused, PushError::TooLarge { bytes: MAX_CONTENT_BYTES + 1 });
    }

    proptest! {
        #[test]
        fn only_the_receiver_decrypts_a_message(content in prop::collection::vec(any::<u8>(), 0..300), seed: u64) {
            let entropy = Entropy::seeded(seed);
            let (browser, other) = (FakeBrowser::new(&entropy), FakeBrowser::new(&entropy));
            let receiver = Receiver::parse(&browser.p256dh(), &browser.auth(), &entropy).unwrap();
            let mut sent = receiver.encrypt(&content, &entropy).unwrap();
            prop_assert_eq!(browser.read(&sent).unwrap(), content);
            prop_assert_eq!(other.read(&sent), None);
            let last = sent.len() - 1;
            sent[last] ^= 1;
            prop_assert_eq!(browser.read(&sent), None);
        }

        #[test]
        fn parse_never_panics(p256dh in ".{0,120}", auth in ".{0,40}") {
            let _ = Receiver::parse(&p256dh, &auth, &Entropy::seeded(1));
        }
    }
}
