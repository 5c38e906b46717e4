//! Encoding of emails (RFC 5322, RFC 2045).

use std::time::{Duration, SystemTime};

use agentd_base::Timestamp;
use lettre::Address;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message, SinglePart};
use url::Host;

use super::error::EmailError;
use crate::notify::model::MessageFormat;

/// Content and recipient of an email.
pub(super) struct Mail<'a> {
    /// Local part of the `Message-ID`.
    pub(super) id: &'a str,
    pub(super) to: &'a str,
    pub(super) subject: &'a str,
    pub(super) body: &'a str,
    pub(super) format: MessageFormat,
}

/// An encoded email.
pub(super) struct EncodedMail {
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) message_id: String,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn encode(mail: &Mail<'_>, from: &str, now: Timestamp) -> Result<EncodedMail, EmailError> {
    let (from, to) = (address(from)?, address(mail.to)?);
    let message_id = format!("<{}@{}>", mail.id, from.domain());
    let micros = u64::try_from(now.as_millis()).unwrap_or(0);
    let content_type = match mail.format {
        MessageFormat::Html => ContentType::TEXT_HTML,
        // Markdown and JSON are readable as plain text; their own content types would be shown as attachments.
        MessageFormat::Markdown | MessageFormat::Text | MessageFormat::Json => ContentType::TEXT_PLAIN,
    };
    let message = Message::builder()
        .from(Mailbox::new(None, from.clone()))
        .to(Mailbox::new(None, to.clone()))
        .subject(mail.subject)
        .date(SystemTime::UNIX_EPOCH + Duration::from_millis(micros))
        .message_id(Some(message_id.clone()))
        // Prevents automatic replies (RFC 3834).
        .raw_header(HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned()))
        .singlepart(SinglePart::builder().header(content_type).body(mail.body.to_owned()))
        .map_err(EmailError::Writing)?;
    Ok(EncodedMail { from, to, message_id, bytes: message.formatted() })
}

/// Parses an address and converts its domain to ASCII (IDNA).
fn address(text: &str) -> Result<Address, EmailError> {
    let wrong = |problem: &str| EmailError::Address { address: text.to_owned(), problem: problem.to_owned() };
    let (local, domain) = text.rsplit_once('@').ok_or_else(|| wrong("the address has no @"))?;
    let domain = Host::parse(domain).map_err(|_| wrong("the domain of the address is not valid"))?;
    Address::new(local, domain.to_string()).map_err(|error| wrong(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode_test_mail(subject: &str, body: &str, format: MessageFormat) -> EncodedMail {
        let mail = Mail { id: "ntf_1", to: "ada@example.org", subject, body, format };
        encode(&mail, "agentd@Bücher.example", Timestamp::parse("2026-01-05T09:00:00Z").unwrap()).unwrap()
    }

    #[test]
    fn email_has_the_required_headers() {
        let encoded = encode_test_mail("Grüße", "Hällo\n.\nend", MessageFormat::Markdown);
        let text = String::from_utf8(encoded.bytes).unwrap();
        assert_eq!(encoded.message_id, "<ntf_1@xn--bcher-kva.example>");
        for line in [
            "Message-ID: <ntf_1@xn--bcher-kva.example>",
            "From: agentd@xn--bcher-kva.example",
            "To: ada@example.org",
            "Date: Mon, 05 Jan 2026 09:00:00 +0000",
            "Auto-Submitted: auto-generated",
            "Content-Type: text/plain; charset=utf-8",
            "MIME-Version: 1.0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(text.is_ascii(), "{text}");
        let html = String::from_utf8(encode_test_mail("x", "<p>x</p>", MessageFormat::Html).bytes).unwrap();
        assert!(html.contains("Content-Type: text/html; charset=utf-8"), "{html}");
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for bad in ["x", "a b@c.de", "a@", "a\r\nb@c.de", "a@b\r\nDATA.de"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        /// No subject or body adds a header, ends the message early, or emits a non-ASCII byte.
        #[test]
        fn content_cannot_inject_headers_or_lines(subject in "\\PC{0,80}", body in any::<String>()) {
            let encoded = encode_test_mail(&subject, &body, MessageFormat::Text);
            let text = String::from_utf8(encoded.bytes).unwrap();
            prop_assert!(text.is_ascii());
            let (head, _) = text.split_once("\r\n\r\n").unwrap();
            let names: Vec<&str> = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t']))
                .filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
            prop_assert_eq!(names.len(), 9, "{}", head);
            prop_assert!(text.split("\r\n").all(|line| line.len() <= 998 && !line.contains(['\r', '\n'])), "{:?}", text);
        }
    }
}
