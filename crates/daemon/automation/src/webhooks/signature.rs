//! Verification of request signatures with the secret of a webhook.
//!
//! Two schemes are supported, described in [`agentd_net::webhook_signature`]: `X-Svc-Signature`, and the three headers
//! of Standard Webhooks. The latter also prevents replays, because its timestamp may be off by at most five minutes. At
//! least one scheme must be present, and every scheme present must be valid.

use agentd_base::{Secret, Timestamp};
use agentd_net::webhook_signature::{SignedMessage, verify_body, verify_message};
use http::HeaderMap;

pub(super) const SVC_SIGNATURE: &str = "x-svc-signature";
const WEBHOOK_ID: &str = "webhook-id";
const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
const WEBHOOK_SIGNATURE: &str = "webhook-signature";

/// Maximum clock skew of a sender, in seconds.
const MAX_CLOCK_SKEW_SECONDS: i64 = 5 * 60;
const MAX_ID_BYTES: usize = 255;

/// Headers with the id of a message. The first one present is used.
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
    #[error("the signature is wrong; compute it with the secret of this webhook over the raw bytes of the body")]
    Wrong,
    #[error("the header `{header}` is missing; Standard Webhooks requires it together with `webhook-signature`")]
    Absent { header: &'static str },
    #[error(
        "the header `{header}` is not valid; send it once, as plain text, and `webhook-timestamp` as whole seconds \
         since 1970"
    )]
    Unreadable { header: &'static str },
    #[error(
        "the signature is correct but its `webhook-timestamp` is not current; send the current Unix time in seconds"
    )]
    Stale,
    /// The secret was removed by the owner, or is missing after a restore without secrets.
    #[error("the webhook has no secret, so requests cannot be verified; its owner must set one")]
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

/// Verifies the signatures of a request.
///
/// # Errors
/// The reason the request is rejected.
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
    let is_valid = single_value(headers, SVC_SIGNATURE).is_some_and(|signature| verify_body(secret, body, signature));
    if is_valid { Ok(()) } else { Err(SignatureProblem::Wrong) }
}

fn verify_standard(secret: &Secret, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<(), SignatureProblem> {
    let (id, time) = (signed_header(headers, WEBHOOK_ID)?, signed_header(headers, WEBHOOK_TIMESTAMP)?);
    let seconds: i64 = time.parse().map_err(|_| SignatureProblem::Unreadable { header: WEBHOOK_TIMESTAMP })?;
    let message = SignedMessage { id, timestamp: time, body };
    if !single_value(headers, WEBHOOK_SIGNATURE).is_some_and(|signatures| verify_message(secret, message, signatures)) {
        return Err(SignatureProblem::Wrong);
    }
    let is_fresh = now.to_jiff().as_second().abs_diff(seconds) <= MAX_CLOCK_SKEW_SECONDS.unsigned_abs();
    if is_fresh { Ok(()) } else { Err(SignatureProblem::Stale) }
}

/// Returns the value of a header that occurs exactly once and is text.
fn single_value<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    first.filter(|_| second.is_none()).and_then(|value| value.to_str().ok())
}

/// Returns a header that the signature of Standard Webhooks covers.
fn signed_header<'h>(headers: &'h HeaderMap, header: &'static str) -> Result<&'h str, SignatureProblem> {
    let is_present = headers.contains_key(header);
    single_value(headers, header).ok_or(if is_present {
        SignatureProblem::Unreadable { header }
    } else {
        SignatureProblem::Absent { header }
    })
}

/// Id of a message, as set by the sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessageId {
    /// Header that contains the id.
    header: &'static str,
    pub(super) id: String,
}

impl MessageId {
    /// Returns the deduplication key. It includes the header, so that equal ids from different schemes do not collide.
    pub(super) fn key(&self) -> String {
        format!("{} {}", self.header, self.id)
    }

    /// Whether the id is an idempotency key, which implies an identical body.
    pub(super) fn is_idempotency_key(&self) -> bool {
        self.header == IDEMPOTENCY_KEY
    }
}

/// Returns the id of a message, or `None` if the sender set none.
///
/// # Errors
/// The name of the header whose value is empty, too long or not text.
pub(super) fn message_id(headers: &HeaderMap) -> Result<Option<MessageId>, &'static str> {
    let Some((header, value)) = MESSAGE_IDS.into_iter().find_map(|name| Some((name, headers.get(name)?))) else {
        return Ok(None);
    };
    let text = value.to_str().ok().map(str::trim).filter(|text| (1..=MAX_ID_BYTES).contains(&text.len()));
    text.map(|text| Some(MessageId { header, id: text.to_owned() })).ok_or(header)
}

#[cfg(test)]
mod tests {
    use agentd_net::webhook_signature::sign_message;
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

    #[test]
    fn svc_signature_is_verified_and_must_occur_once() {
        let body = "what do ya want for nothing?";
        let right = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(verified("Jefe", &[(SVC_SIGNATURE, right)], body), Ok(()));
        assert_eq!(verified("jefe", &[(SVC_SIGNATURE, right)], body), Err(SignatureProblem::Wrong));
        assert_eq!(verified("Jefe", &[(SVC_SIGNATURE, "")], body), Err(SignatureProblem::Wrong));
        assert_eq!(verified("Jefe", &[], body), Err(SignatureProblem::Missing));
        let twice = [(SVC_SIGNATURE, right), (SVC_SIGNATURE, right)];
        assert_eq!(verified("Jefe", &twice, body), Err(SignatureProblem::Wrong));
        assert_eq!(verify(None, &headers(&twice[..1]), body.as_bytes(), now()), Err(SignatureProblem::NoSecret));
    }

    fn standard(secret: &str, id: &str, time: i64, body: &str) -> String {
        let message = SignedMessage { id, timestamp: &time.to_string(), body: body.as_bytes() };
        sign_message(&Secret::new(secret.to_owned()), message)
    }

    #[test]
    fn standard_webhooks_signature_must_be_valid_fresh_and_complete() {
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
    fn every_present_signature_must_be_valid() {
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
    fn message_id_is_taken_from_the_first_known_header() {
        let named = |list: &[(&'static str, &str)]| message_id(&headers(list)).map(|name| name.map(|name| name.key()));
        assert_eq!(named(&[]), Ok(None));
        assert_eq!(named(&[("x-svc-delivery", "d"), (WEBHOOK_ID, "m")]), Ok(Some("webhook-id m".to_owned())));
        assert_eq!(named(&[("x-github-delivery", " g ")]), Ok(Some("x-github-delivery g".to_owned())));
        assert_eq!(named(&[(WEBHOOK_ID, "")]), Err(WEBHOOK_ID));
        assert_eq!(named(&[("x-svc-delivery", &"x".repeat(256))]), Err("x-svc-delivery"));
    }

    proptest! {
        #[test]
        fn arbitrary_headers_never_panic_or_verify(
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
