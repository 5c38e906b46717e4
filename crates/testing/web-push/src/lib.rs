//! The receiving side of Web Push for tests: a browser that decrypts messages (RFC 8291) and a push service that verifies
//! their sender (RFC 8292).
//!
//! Shares no code with the crate that it checks.

use agentd_base::Entropy;
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey as VerifyingKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// Length of an uncompressed point: `0x04`, x, y.
const POINT_BYTES: usize = 65;
/// Maximum number of random byte strings that are tried as a private key; nearly every one is valid.
const MAX_KEY_ATTEMPTS: usize = 8;

/// A subscription with the private half of its keys.
#[derive(Debug)]
pub struct FakeBrowser {
    private: PrivateKey,
    public: [u8; POINT_BYTES],
    auth: [u8; 16],
}

#[allow(clippy::expect_used, reason = "a fake may fail its test")]
impl FakeBrowser {
    #[must_use]
    pub fn new(entropy: &Entropy) -> Self {
        let is_key = |bytes: &[u8; 32]| PrivateKey::from_private_key(&ECDH_P256, bytes).is_ok();
        let bytes = (0..MAX_KEY_ATTEMPTS).map(|_| entropy.bytes()).find(is_key).expect("a private key");
        Self::with_keys(&bytes, entropy.bytes())
    }

    #[must_use]
    pub fn with_keys(private: &[u8; 32], auth: [u8; 16]) -> Self {
        let private = PrivateKey::from_private_key(&ECDH_P256, private).expect("a private key");
        let public = private.compute_public_key().expect("its public half");
        let public = public.as_ref().try_into().expect("an uncompressed point");
        Self { private, public, auth }
    }

    #[must_use]
    pub fn p256dh(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.public)
    }

    #[must_use]
    pub fn auth(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.auth)
    }

    /// Decrypts a message. Returns `None` if it is not for this browser or was altered.
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
        let derive = |shared: &[u8]| {
            let input: [u8; 32] = hkdf(&self.auth, shared, &[b"WebPush: info\0", &self.public, sender]).ok_or(())?;
            let key: [u8; 16] = hkdf(salt, &input, &[b"Content-Encoding: aes128gcm\0"]).ok_or(())?;
            let nonce: [u8; 12] = hkdf(salt, &input, &[b"Content-Encoding: nonce\0"]).ok_or(())?;
            Ok((key, nonce))
        };
        let (key, nonce) = agree(&self.private, sender_key, (), derive).ok()?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).ok()?);
        let mut record = record.to_vec();
        let content = key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut record).ok()?;
        // The padding is followed by the delimiter of the last record.
        let end = content.iter().rposition(|byte| *byte != 0)?;
        (content[end] == 2).then(|| content[..end].to_vec())
    }
}

/// Returns the first `N` bytes of HKDF with SHA-256 (RFC 5869); at most 32.
fn hkdf<const N: usize>(salt: &[u8], secret: &[u8], info: &[&[u8]]) -> Option<[u8; N]> {
    let mut block = [0; 32];
    let extracted = Salt::new(HKDF_SHA256, salt).extract(secret);
    extracted.expand(info, HKDF_SHA256).ok()?.fill(&mut block).ok()?;
    block.first_chunk().copied()
}

/// Returns the claims of an `Authorization` header, or `None` if the holder of `public_key` did not sign it.
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
