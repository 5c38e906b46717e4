//! RSA keys that the fakes sign by: two to change between, and one of a service account. Making one takes long, so all
//! fakes of a process share them.

use std::sync::{Arc, LazyLock};

use aws_lc_rs::signature::{KeyPair, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{CertificateParams, PKCS_RSA_SHA256, RsaKeySize};

use crate::jwt::SigningKey;

/// A key in all the forms in which it is published and used.
#[derive(Debug)]
pub(crate) struct FakeKey {
    pub(crate) id: String,
    pub(crate) signing: SigningKey,
    pub(crate) private_pem: String,
    pub(crate) certificate_pem: String,
    /// As in a key set: base64 without padding.
    pub(crate) modulus: String,
    pub(crate) exponent: String,
}

static KEYS: LazyLock<[Arc<FakeKey>; 3]> =
    LazyLock::new(|| ["fake-key-0", "fake-key-1", "fake-key-2"].map(|id| Arc::new(generate(id))));

/// The key that is in use after so many changes.
pub(crate) fn of_platform(changes: usize) -> Arc<FakeKey> {
    let [first, second, _] = &*KEYS;
    Arc::clone(if changes.is_multiple_of(2) { first } else { second })
}

pub(crate) fn of_service_account() -> Arc<FakeKey> {
    let [.., last] = &*KEYS;
    Arc::clone(last)
}

#[allow(clippy::expect_used, reason = "without its keys a fake is of no use")]
fn generate(id: &str) -> FakeKey {
    let key = rcgen::KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a new key");
    let certificate =
        CertificateParams::new(Vec::<String>::new()).and_then(|params| params.self_signed(&key)).expect("signed");
    let pair = RsaKeyPair::from_pkcs8(key.serialized_der()).expect("the key just made");
    let private_pem = pem("PRIVATE KEY", key.serialized_der());
    FakeKey {
        id: id.to_owned(),
        signing: SigningKey::from_pem(&private_pem, Some(id.to_owned())).expect("the key just made"),
        private_pem,
        certificate_pem: pem("CERTIFICATE", certificate.der()),
        modulus: URL_SAFE_NO_PAD.encode(pair.public_key().modulus().big_endian_without_leading_zero()),
        exponent: URL_SAFE_NO_PAD.encode(pair.public_key().exponent().big_endian_without_leading_zero()),
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
