//! Extraction of the public key from an X.509 certificate (RFC 5280).
//!
//! Deliberately absent: checks of issuer and validity. Google publishes the keys of service accounts as self-signed
//! certificates; the TLS connection authenticates them.

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// Returns the `SubjectPublicKeyInfo` of a certificate, both in DER.
pub(crate) fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = contents(certificate, SEQUENCE)?;
    let (mut fields, _) = contents(certificate, SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        (_, fields) = element(fields)?;
    }
    // Skip serial number, signature algorithm, issuer, validity and subject.
    for _ in 0..5 {
        (_, fields) = element(fields)?;
    }
    let (key, _) = element(fields)?;
    (key.first() == Some(&SEQUENCE)).then_some(key)
}

/// Returns the contents of the first element, which must have this tag, and the remainder.
fn contents(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (head, length) = head(bytes)?;
    let (whole, rest) = element(bytes)?;
    (bytes.first() == Some(&tag)).then_some(())?;
    Some((whole.get(head..head.checked_add(length)?)?, rest))
}

/// Returns the first element including its header, and the remainder.
fn element(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, length) = head(bytes)?;
    bytes.split_at_checked(head.checked_add(length)?)
}

/// Returns the lengths of the header and the contents of the first element.
fn head(bytes: &[u8]) -> Option<(usize, usize)> {
    let first = *bytes.get(1)?;
    if first < 0x80 {
        return Some((2, first.into()));
    }
    // Certificates need at most three length bytes.
    let count = usize::from(first & 0x7f);
    if !(1..=3).contains(&count) {
        return None;
    }
    let length = bytes.get(2..2 + count)?.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte));
    Some((2 + count, length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn public_key_never_panics_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = public_key(&bytes);
        }

        #[test]
        fn public_key_never_panics_on_any_elements(bytes in prop::collection::vec(
            prop_oneof![Just(0x30_u8), Just(0xa0), Just(0x81), Just(0x82), 0_u8..20], 0..60)) {
            let _ = public_key(&bytes);
        }
    }
}
