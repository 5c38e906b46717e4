//! Whether a request is signed by who knows the webhook's secret.
//!
//! Two schemes: `X-Svc-Signature: sha256=<hex>`, HMAC-SHA256 over the raw body under the secret's text;
//! and Standard Webhooks (<https://www.standardwebhooks.com>): `webhook-id`, `webhook-timestamp` and
//! `webhook-signature: v1,<base64>`, HMAC-SHA256 over `id.timestamp.body` under the secret's bytes
//! (base64 after `whsec_`, else the text). The second one also stops replays: its time may be five
//! minutes off. Every scheme that is presented must be right, and one must be presented.

use agentd_base::{Secret, Timestamp};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use sha2::Sha256;

use super::model::SECRET_PREFIX;

pub(super) const SVC_SIGNATURE: &str = "x-svc-signature";
const WEBHOOK_ID: &str = "webhook-id";
const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
const WEBHOOK_SIGNATURE: &str = "webhook-signature";

/// How far a sender's clock may be off, in seconds.
const TOLERANCE_SECONDS: i64 = 5 * 60;
/// A sender that changes its secret signs with the old and the new one.
const MAX_SIGNATURES: usize = 16;
const MAX_ID_BYTES: usize = 255;

/// Headers that name a message, the first one that is there counts.
const MESSAGE_IDS: [&str; 5] =
    [WEBHOOK_ID, "x-svc-delivery", "x-github-delivery", "x-gitlab-event-uuid", IDEMPOTENCY_KEY];
const IDEMPOTENCY_KEY: &str = "idempotency-key";

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureProblem {
    #[error(
        "the request is not signed; send `X-Svc-Signature: sha256=<hex of HMAC-SHA256 over the raw body>`, or the \
         three headers of Standard Webhooks"
    )]
    Missing,
    #[error("the signature is not right; it must be made with this webhook's secret over the very bytes of the body")]
    Wrong,
    #[error("`{header}` is missing; Standard Webhooks send it with `webhook-signature`, which is made over it too")]
    Absent { header: &'static str },
    #[error(
        "`{header}` cannot be read; it must be there once and be plain text, and `webhook-timestamp` whole seconds \
         since 1970"
    )]
    Unreadable { header: &'static str },
    #[error("the signature is right but too old or too new; `webhook-timestamp` must be the present time, in seconds")]
    Stale,
    /// A restored backup has no secrets, and an owner may take one away.
    #[error("the webhook has no secret, so nothing can be signed for it; its owner has to set one")]
    NoSecret,
}

impl SignatureProblem {
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Missing => "missing_signature",
            Self::Wrong | Self::Absent { .. } | Self::Unreadable { .. } => "invalid_signature",
            Self::Stale => "stale_signature",
            Self::NoSecret => "no_secret",
        }
    }
}

/// # Errors
/// Why the request is not let in.
pub(super) fn verify(
    secret: Option<&Secret>,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<(), SignatureProblem> {
    let (has_svc, has_standard) = (headers.contains_key(SVC_SIGNATURE), headers.contains_key(WEBHOOK_SIGNATURE));
    if !has_svc && !has_standard {
        return Err(SignatureProblem::Missing);
    }
    let secret = secret.ok_or(SignatureProblem::NoSecret)?;
    if has_svc {
        verify_svc(secret, headers, body)?;
    }
    if has_standard {
        verify_standard(secret, headers, body, now)?;
    }
    Ok(())
}

fn verify_svc(secret: &Secret, headers: &HeaderMap, body: &[u8]) -> Result<(), SignatureProblem> {
    let digest = only(headers, SVC_SIGNATURE).and_then(|value| value.strip_prefix("sha256="));
    let digest = digest.ok_or(SignatureProblem::Wrong)?;
    // One spelling alone, as the interface writes it.
    if digest.len() != 64 || digest.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(SignatureProblem::Wrong);
    }
    let digest = hex::decode(digest).map_err(|_| SignatureProblem::Wrong)?;
    let mut mac = keyed(secret.expose().as_bytes());
    mac.update(body);
    mac.verify_slice(&digest).map_err(|_| SignatureProblem::Wrong)
}

fn verify_standard(secret: &Secret, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<(), SignatureProblem> {
    let (id, time) = (signed(headers, WEBHOOK_ID)?, signed(headers, WEBHOOK_TIMESTAMP)?);
    let seconds: i64 = time.parse().map_err(|_| SignatureProblem::Unreadable { header: WEBHOOK_TIMESTAMP })?;
    let mut mac = keyed(&key_bytes(secret));
    for part in [id.as_bytes(), b".", time.as_bytes(), b".", body] {
        mac.update(part);
    }
    let presented = only(headers, WEBHOOK_SIGNATURE).ok_or(SignatureProblem::Wrong)?;
    let is_right = presented
        .split(' ')
        .filter_map(|entry| entry.strip_prefix("v1,"))
        .take(MAX_SIGNATURES)
        .filter_map(|encoded| STANDARD.decode(encoded).ok())
        .any(|digest| mac.clone().verify_slice(&digest).is_ok());
    if !is_right {
        return Err(SignatureProblem::Wrong);
    }
    let is_fresh = now.to_jiff().as_second().abs_diff(seconds) <= TOLERANCE_SECONDS.unsigned_abs();
    if is_fresh { Ok(()) } else { Err(SignatureProblem::Stale) }
}

/// The header's value, if it is there once and is text.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    first.filter(|_| second.is_none()).and_then(|value| value.to_str().ok())
}

/// The value of a header that a signature of Standard Webhooks is made over.
fn signed<'h>(headers: &'h HeaderMap, header: &'static str) -> Result<&'h str, SignatureProblem> {
    let is_there = headers.contains_key(header);
    only(headers, header).ok_or(if is_there {
        SignatureProblem::Unreadable { header }
    } else {
        SignatureProblem::Absent { header }
    })
}

/// The key of Standard Webhooks.
fn key_bytes(secret: &Secret) -> Vec<u8> {
    let text = secret.expose();
    let decoded = text.strip_prefix(SECRET_PREFIX).and_then(|encoded| STANDARD.decode(encoded).ok());
    decoded.unwrap_or_else(|| text.as_bytes().to_vec())
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    #[allow(clippy::expect_used, reason = "HMAC takes keys of any length")]
    Hmac::<Sha256>::new_from_slice(key).expect("any key will do")
}

/// What the sender calls a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessageName {
    /// The header that names it.
    header: &'static str,
    pub(super) id: String,
}

impl MessageName {
    /// Each header counts for itself: what two services happen to call alike is two messages.
    pub(super) fn key(&self) -> String {
        format!("{} {}", self.header, self.id)
    }

    /// Whether the sender promises the same body with it.
    pub(super) fn is_idempotency_key(&self) -> bool {
        self.header == IDEMPOTENCY_KEY
    }
}

/// What the sender calls the message; `None` when it names it nothing.
///
/// # Errors
/// The name of the header whose value is too long, empty or no text.
pub(super) fn message_name(headers: &HeaderMap) -> Result<Option<MessageName>, &'static str> {
    let Some((header, value)) = MESSAGE_IDS.into_iter().find_map(|name| Some((name, headers.get(name)?))) else {
        return Ok(None);
    };
    let text = value.to_str().ok().map(str::trim).filter(|text| (1..=MAX_ID_BYTES).contains(&text.len()));
    text.map(|text| Some(MessageName { header, id: text.to_owned() })).ok_or(header)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn now() -> Timestamp {
        Timestamp::from_micros(NOW * 1_000_000)
    }

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn verified(secret: &str, list: &[(&'static str, &str)], body: &str) -> Result<(), SignatureProblem> {
        verify(Some(&Secret::new(secret.to_owned())), &headers(list), body.as_bytes(), now())
    }

    /// RFC 4231, test case 2.
    #[test]
    fn the_plain_scheme_is_hmac_sha256_in_lower_case_hex() {
        let body = "what do ya want for nothing?";
        let right = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(verified("Jefe", &[(SVC_SIGNATURE, right)], body), Ok(()));
        let upper = right.to_ascii_uppercase().replace("SHA256", "sha256");
        for wrong in [
            "",
            "sha256=",
            &right[..right.len() - 1],
            &format!("{right}0"),
            &upper,
            &right.replace("sha256=", ""),
            &right.replace("sha256=", "sha1="),
            &right.replace("5bdc", "zzzz"),
            &format!("{right}, {right}"),
        ] {
            let outcome = verified("Jefe", &[(SVC_SIGNATURE, wrong)], body);
            assert_eq!(outcome, Err(SignatureProblem::Wrong), "{wrong}");
        }
        assert_eq!(verified("Jefe", &[], body), Err(SignatureProblem::Missing));
        assert_eq!(verified("jefe", &[(SVC_SIGNATURE, right)], body), Err(SignatureProblem::Wrong));
        let twice = [(SVC_SIGNATURE, right), (SVC_SIGNATURE, right)];
        assert_eq!(verified("Jefe", &twice, body), Err(SignatureProblem::Wrong));
        assert_eq!(verify(None, &headers(&twice[..1]), body.as_bytes(), now()), Err(SignatureProblem::NoSecret));
    }

    fn standard(secret: &str, id: &str, time: i64, body: &str) -> String {
        let mut mac = keyed(&key_bytes(&Secret::new(secret.to_owned())));
        mac.update(format!("{id}.{time}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }

    #[test]
    fn the_key_of_standard_webhooks_is_what_the_base64_says() {
        assert_eq!(key_bytes(&Secret::new("whsec_AAEC".to_owned())), [0, 1, 2]);
        assert_eq!(key_bytes(&Secret::new("plain text".to_owned())), b"plain text");
    }

    #[test]
    fn standard_webhooks_are_right_fresh_and_whole() {
        let (secret, body) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "{\"a\":1}");
        let right = standard(secret, "msg_1", NOW, body);
        let send = |id: &str, time: i64, signature: &str| {
            verified(
                secret,
                &[(WEBHOOK_ID, id), (WEBHOOK_TIMESTAMP, &time.to_string()), (WEBHOOK_SIGNATURE, signature)],
                body,
            )
        };
        assert_eq!(send("msg_1", NOW, &right), Ok(()));
        assert_eq!(send("msg_1", NOW, &format!("v1,AAAA v2,x {right}")), Ok(()));
        assert_eq!(send("msg_2", NOW, &right), Err(SignatureProblem::Wrong));
        assert_eq!(send("msg_1", NOW + 1, &right), Err(SignatureProblem::Wrong));
        for (time, outcome) in [(NOW - 300, Ok(())), (NOW + 300, Ok(()))] {
            assert_eq!(send("msg_1", time, &standard(secret, "msg_1", time, body)), outcome);
        }
        for time in [NOW - 301, NOW + 301, 0, i64::MAX, i64::MIN] {
            let outcome = send("msg_1", time, &standard(secret, "msg_1", time, body));
            assert_eq!(outcome, Err(SignatureProblem::Stale), "{time}");
        }
        let without_time = verified(secret, &[(WEBHOOK_ID, "msg_1"), (WEBHOOK_SIGNATURE, &right)], body);
        assert_eq!(without_time, Err(SignatureProblem::Absent { header: WEBHOOK_TIMESTAMP }));
        let now = NOW.to_string();
        let without_id = verified(secret, &[(WEBHOOK_TIMESTAMP, &*now), (WEBHOOK_SIGNATURE, &*right)], body);
        assert_eq!(without_id, Err(SignatureProblem::Absent { header: WEBHOOK_ID }));
        let words = [(WEBHOOK_ID, "msg_1"), (WEBHOOK_TIMESTAMP, "abc"), (WEBHOOK_SIGNATURE, &*right)];
        assert_eq!(verified(secret, &words, body), Err(SignatureProblem::Unreadable { header: WEBHOOK_TIMESTAMP }));
        let twice =
            [(WEBHOOK_ID, "msg_1"), (WEBHOOK_ID, "msg_1"), (WEBHOOK_TIMESTAMP, &*now), (WEBHOOK_SIGNATURE, &*right)];
        assert_eq!(verified(secret, &twice, body), Err(SignatureProblem::Unreadable { header: WEBHOOK_ID }));
    }

    #[test]
    fn every_signature_that_is_presented_counts() {
        let (secret, body) = ("Jefe", "what do ya want for nothing?");
        let svc = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let right = standard(secret, "m", NOW, body);
        let time = NOW.to_string();
        let both = |svc: &str, signature: &str| {
            let list =
                [(SVC_SIGNATURE, svc), (WEBHOOK_ID, "m"), (WEBHOOK_TIMESTAMP, &time), (WEBHOOK_SIGNATURE, signature)];
            verified(secret, &list, body)
        };
        assert_eq!(both(svc, &right), Ok(()));
        assert_eq!(both(svc, "v1,AAAA"), Err(SignatureProblem::Wrong));
        assert_eq!(both("sha256=00", &right), Err(SignatureProblem::Wrong));
    }

    #[test]
    fn messages_are_named_by_the_first_header_that_does() {
        let named =
            |list: &[(&'static str, &str)]| message_name(&headers(list)).map(|name| name.map(|name| name.key()));
        assert_eq!(named(&[]), Ok(None));
        assert_eq!(named(&[("x-svc-delivery", "d"), (WEBHOOK_ID, "m")]), Ok(Some("webhook-id m".to_owned())));
        assert_eq!(named(&[("x-github-delivery", " g ")]), Ok(Some("x-github-delivery g".to_owned())));
        assert_eq!(named(&[(WEBHOOK_ID, "")]), Err(WEBHOOK_ID));
        assert_eq!(named(&[("x-svc-delivery", &"x".repeat(256))]), Err("x-svc-delivery"));
    }

    proptest! {
        #[test]
        fn no_header_panics_or_passes(
            svc in proptest::option::of("[ -~]{0,80}"),
            signature in proptest::option::of("[ -~]{0,80}"),
            time in "[0-9-]{0,22}",
        ) {
            let mut headers = HeaderMap::new();
            let mut put = |name: &'static str, value: &Option<String>| {
                if let Some(value) = value {
                    headers.insert(name, HeaderValue::from_str(value).unwrap());
                }
            };
            put(SVC_SIGNATURE, &svc);
            put(WEBHOOK_SIGNATURE, &signature);
            put(WEBHOOK_TIMESTAMP, &Some(time));
            put(WEBHOOK_ID, &Some("m".to_owned()));
            prop_assert!(verify(Some(&Secret::new("secret".to_owned())), &headers, b"body", now()).is_err());
        }
    }
}
