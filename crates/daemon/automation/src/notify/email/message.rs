//! A mail as it travels (RFC 5322, RFC 2045).

use std::time::{Duration, SystemTime};

use agentd_base::Timestamp;
use lettre::Address;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message, SinglePart};
use url::Host;

use super::error::EmailError;
use crate::notify::model::MessageFormat;

/// What is to be said to whom.
pub(super) struct Mail<'a> {
    /// What the `Message-ID` begins with.
    pub(super) id: &'a str,
    pub(super) to: &'a str,
    pub(super) subject: &'a str,
    pub(super) body: &'a str,
    pub(super) format: MessageFormat,
}

/// A mail, ready to be sent.
pub(super) struct Letter {
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) message_id: String,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn write(mail: &Mail<'_>, from: &str, now: Timestamp) -> Result<Letter, EmailError> {
    let (from, to) = (address(from)?, address(mail.to)?);
    let message_id = format!("<{}@{}>", mail.id, from.domain());
    let micros = u64::try_from(now.as_millis()).unwrap_or(0);
    let content_type = match mail.format {
        MessageFormat::Html => ContentType::TEXT_HTML,
        // Markdown and JSON are made to be read as they are; types of their own show up as attachments.
        MessageFormat::Markdown | MessageFormat::Text | MessageFormat::Json => ContentType::TEXT_PLAIN,
    };
    let message = Message::builder()
        .from(Mailbox::new(None, from.clone()))
        .to(Mailbox::new(None, to.clone()))
        .subject(mail.subject)
        .date(SystemTime::UNIX_EPOCH + Duration::from_millis(micros))
        .message_id(Some(message_id.clone()))
        // Nobody's holiday greeting is to answer it (RFC 3834).
        .raw_header(HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned()))
        .singlepart(SinglePart::builder().header(content_type).body(mail.body.to_owned()))
        .map_err(EmailError::Writing)?;
    Ok(Letter { from, to, message_id, bytes: message.formatted() })
}

/// The domain in the form that every server knows.
fn address(text: &str) -> Result<Address, EmailError> {
    let wrong = |problem: &str| EmailError::Address { address: text.to_owned(), problem: problem.to_owned() };
    let (local, domain) = text.rsplit_once('@').ok_or_else(|| wrong("it has no @"))?;
    let domain = Host::parse(domain).map_err(|_| wrong("its domain is not valid"))?;
    Address::new(local, domain.to_string()).map_err(|error| wrong(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(subject: &str, body: &str, format: MessageFormat) -> Letter {
        let mail = Mail { id: "ntf_1", to: "ada@example.org", subject, body, format };
        write(&mail, "agentd@Bücher.example", Timestamp::parse("2026-01-05T09:00:00Z").unwrap()).unwrap()
    }

    #[test]
    fn a_letter_has_what_a_letter_needs() {
        let letter = written("Grüße", "Hällo\n.\nend", MessageFormat::Markdown);
        let text = String::from_utf8(letter.bytes).unwrap();
        assert_eq!(letter.message_id, "<ntf_1@xn--bcher-kva.example>");
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
        let html = String::from_utf8(written("x", "<p>x</p>", MessageFormat::Html).bytes).unwrap();
        assert!(html.contains("Content-Type: text/html; charset=utf-8"), "{html}");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in ["x", "a b@c.de", "a@", "a\r\nb@c.de", "a@b\r\nDATA.de"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        /// Whatever is in subject and body: no header more, no line that ends the message, no bare byte.
        #[test]
        fn nothing_breaks_out(subject in "\\PC{0,80}", body in any::<String>()) {
            let letter = written(&subject, &body, MessageFormat::Text);
            let text = String::from_utf8(letter.bytes).unwrap();
            prop_assert!(text.is_ascii());
            let (head, _) = text.split_once("\r\n\r\n").unwrap();
            let names: Vec<&str> = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t']))
                .filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
            prop_assert_eq!(names.len(), 9, "{}", head);
            prop_assert!(text.split("\r\n").all(|line| line.len() <= 998 && !line.contains(['\r', '\n'])), "{:?}", text);
        }
    }
}
