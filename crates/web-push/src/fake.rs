//! The other side: a browser that reads what it is sent, and a push service's look at who sends it.

use agentd_base::Entropy;
use aws_lc_rs::aead::{Aad, Nonce};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey as VerifyingKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::message::{MessageKeys, private_key, public_key};
use crate::{POINT, PushError, encode};

/// A subscription with the private half of its keys.
#[derive(Debug)]
pub struct FakeBrowser {
    private: PrivateKey,
    public: [u8; POINT],
    auth: [u8; 16],
}

#[allow(clippy::expect_used, reason = "a fake may fail its test")]
impl FakeBrowser {
    #[must_use]
    pub fn new(entropy: &Entropy) -> Self {
        let (_, bytes) = private_key(entropy).expect("a private key");
        Self::with_keys(&bytes, entropy.bytes())
    }

    #[must_use]
    pub fn with_keys(private: &[u8; 32], auth: [u8; 16]) -> Self {
        let private = PrivateKey::from_private_key(&ECDH_P256, private).expect("a private key");
        let public = public_key(&private).expect("its public half");
        Self { private, public, auth }
    }

    #[must_use]
    pub fn p256dh(&self) -> String {
        encode(self.public)
    }

    #[must_use]
    pub fn auth(&self) -> String {
        encode(self.auth)
    }

    /// What a message says; `None` where it is not for this browser, or was changed on its way.
    #[must_use]
    pub fn read(&self, body: &[u8]) -> Option<Vec<u8>> {
        let (salt, rest) = body.split_at_checked(16)?;
        let (size, rest) = rest.split_at_checked(4)?;
        let (length, rest) = rest.split_first()?;
        let (sender, record) = rest.split_at_checked(usize::from(*length))?;
        let size = u32::from_be_bytes(size.try_into().ok()?);
        if record.len() > usize::try_from(size).ok()? {
            return None;
        }
        let sender_key = UnparsedPublicKey::new(&ECDH_P256, sender);
        let keys = agree(&self.private, sender_key, PushError::PublicKey, |shared| {
            MessageKeys::derive(shared, &self.auth, &self.public, sender, salt)
        });
        let keys = keys.ok()?;
        let mut record = record.to_vec();
        let nonce = Nonce::assume_unique_for_key(keys.nonce);
        let content = keys.key.open_in_place(nonce, Aad::empty(), &mut record).ok()?;
        // Padding, then the mark of the last record.
        let end = content.iter().rposition(|byte| *byte != 0)?;
        (content[end] == 2).then(|| content[..end].to_vec())
    }
}

/// The claims of an `Authorization` header that the holder of `public_key` signed; `None` where somebody else did.
#[must_use]
pub fn claims_of(header: &str, public_key: &str) -> Option<Value> {
    let (token, key) = header.strip_prefix("vapid t=")?.split_once(", k=")?;
    let point = URL_SAFE_NO_PAD.decode(public_key).ok()?;
    let (signed, signature) = token.rsplit_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    VerifyingKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed.as_bytes(), &signature).ok()?;
    let (head, claims) = signed.split_once('.')?;
    let read = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
    (key == public_key && read(head)?["alg"] == "ES256").then(|| read(claims))?
}
