//! Whether a request is signed by who knows the webhook's secret.
//!
//! Two schemes, as [`agentd_net::webhook_signature`] describes them: `X-Svc-Signature`, and the three
//! headers of Standard Webhooks. The second one also stops replays: its time may be five minutes
//! off. Every scheme that is presented must be right, and one must be presented.

use agentd_base::{Secret, Timestamp};
use agentd_net::webhook_signature::{SignedMessage, verify_body, verify_message};
use http::HeaderMap;

pub(super) const SVC_SIGNATURE: &str = "x-svc-signature";
const WEBHOOK_ID: &str = "webhook-id";
const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
const WEBHOOK_SIGNATURE: &str = "webhook-signature";

/// How far a sender's clock may be off, in seconds.
const TOLERANCE_SECONDS: i64 = 5 * 60;
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
    let is_right = only(headers, SVC_SIGNATURE).is_some_and(|signature| verify_body(secret, body, signature));
    if is_right { Ok(()) } else { Err(SignatureProblem::Wrong) }
}

fn verify_standard(secret: &Secret, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<(), SignatureProblem> {
    let (id, time) = (signed(headers, WEBHOOK_ID)?, signed(headers, WEBHOOK_TIMESTAMP)?);
    let seconds: i64 = time.parse().map_err(|_| SignatureProblem::Unreadable { header: WEBHOOK_TIMESTAMP })?;
    let message = SignedMessage { id, timestamp: time, body };
    if !only(headers, WEBHOOK_SIGNATURE).is_some_and(|signatures| verify_message(secret, message, signatures)) {
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
    fn one_signature_is_presented_once_for_who_has_a_secret() {
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
