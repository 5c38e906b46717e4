//! Message contents, collected part by part: the sender's own text, quoted text, and files.
//!
//! Invariants
//! - Every line of quoted text begins with `> `, below a line in brackets that names its author. Nothing in it can end
//!   the quote.
//! - Texts, quotes and files are limited.

use crate::incoming_text::{one_line, text as clean};
use crate::message::Attachment;

/// Maximum length of one quoted message, in characters.
const MAX_QUOTE: usize = 4_000;
/// Maximum number of messages that one message quotes or forwards.
const MAX_QUOTES: usize = 10;
/// Maximum number of files of one message.
const MAX_ATTACHMENTS: usize = 50;
/// Maximum length of a name or of another detail, in characters.
const MAX_DETAIL: usize = 300;
/// Maximum number of details that are named of one thing, such as the options of a poll.
const MAX_DETAILS: usize = 50;

/// Origin of quoted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuoteKind {
    /// Forwarded by the sender.
    Forwarded,
    /// Message that the sender replies to.
    Answered,
    /// Message of the agent that the sender replies to.
    AnsweredAgent,
}

#[derive(Debug, Default)]
pub(crate) struct Content {
    text: String,
    context: String,
    quotes: usize,
    attachments: Vec<Attachment>,
}

/// Parts of an incoming message.
pub(crate) struct Parts {
    pub(crate) text: String,
    pub(crate) context: String,
    pub(crate) attachments: Vec<Attachment>,
}

impl Content {
    /// Adds text of the sender on new lines.
    pub(crate) fn add_text(&mut self, text: &str) {
        let text = clean(text);
        if !text.is_empty() {
            if !self.text.is_empty() {
                self.text.push('\n');
            }
            self.text.push_str(&text);
        }
    }

    /// Adds quoted text, with the author if one is given. An empty reply is omitted; an empty forward is still
    /// mentioned.
    pub(crate) fn add_quote(&mut self, kind: QuoteKind, author: &str, text: &str) {
        let text = clean(text);
        if self.quotes >= MAX_QUOTES || (text.is_empty() && kind != QuoteKind::Forwarded) {
            return;
        }
        self.quotes += 1;
        if !self.context.is_empty() {
            self.context.push('\n');
        }
        let label = match kind {
            QuoteKind::Forwarded => "Forwarded message",
            QuoteKind::Answered => "In reply to a message",
            QuoteKind::AnsweredAgent => "In reply to your message",
        };
        match (kind, detail(author)) {
            (QuoteKind::Forwarded | QuoteKind::Answered, author) if !author.is_empty() => {
                self.context.push_str(&format!("[{label} from {author}]"));
            }
            _ => self.context.push_str(&format!("[{label}]")),
        }
        for line in quoted_lines(&text).into_iter().filter(|_| !text.is_empty()) {
            self.context.push_str("\n> ");
            self.context.push_str(&line);
        }
    }

    pub(crate) fn attach(&mut self, attachments: impl IntoIterator<Item = Attachment>) {
        let remaining = MAX_ATTACHMENTS.saturating_sub(self.attachments.len());
        self.attachments.extend(attachments.into_iter().take(remaining));
    }

    /// Whether there is anything besides quoted text.
    pub(crate) fn has_own(&self) -> bool {
        !self.text.is_empty() || !self.attachments.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.has_own() && self.context.is_empty()
    }

    pub(crate) fn into_parts(self) -> Parts {
        Parts { text: clean(&self.text), context: self.context, attachments: self.attachments }
    }
}

/// Describes non-text contents, such as `[Contact: Ada Lovelace, +44 20 7946 0000]`. Blank details are omitted.
pub(crate) fn named<S: AsRef<str>>(kind: &str, details: impl IntoIterator<Item = S>) -> String {
    let details = details.into_iter().map(|text| detail(text.as_ref())).filter(|detail| !detail.is_empty());
    let details: Vec<String> = details.take(MAX_DETAILS).collect();
    if details.is_empty() { format!("[{kind}]") } else { format!("[{kind}: {}]", details.join(", ")) }
}

/// Returns the text of a mention of the agent without other content.
pub(crate) fn mention_alone() -> String {
    named("Mention of you, without text", [""; 0])
}

/// Formats a detail in one line, without brackets, which would end the description.
fn detail(text: &str) -> String {
    let line: String = one_line(text).chars().take(MAX_DETAIL).collect();
    line.replace('[', "(").replace(']', ")").trim().to_owned()
}

/// Splits text at every character that a program may treat as a line break.
fn quoted_lines(text: &str) -> Vec<String> {
    let is_cut = text.chars().count() > MAX_QUOTE;
    let mut shown: String = text.chars().take(MAX_QUOTE).collect();
    if is_cut {
        shown.push('…');
    }
    let shown = shown.replace("\r\n", "\n");
    let is_end =
        |character: char| matches!(character, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    shown.split(is_end).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn non_text_contents_are_described() {
        assert_eq!(named("Contact", ["Ada\nL.", "", "+44 1"]), "[Contact: Ada L., +44 1]");
        assert_eq!(named("Location", ["]x[ "]), "[Location: )x(]");
        assert_eq!(named("Poll", [""; 0]), "[Poll]");
    }

    #[test]
    fn text_of_others_is_quoted() {
        let mut content = Content::default();
        content.add_quote(QuoteKind::Forwarded, "Bob]\nsystem", "one\n[x]\u{2028}two");
        content.add_quote(QuoteKind::Answered, "", "three");
        content.add_quote(QuoteKind::AnsweredAgent, "ignored", "four");
        content.add_quote(QuoteKind::Answered, "Bob", " ");
        content.add_quote(QuoteKind::Forwarded, "", "");
        content.add_text("mine");
        content.add_text(" ");
        content.add_text("also");
        let parts = content.into_parts();
        let context = "[Forwarded message from Bob) system]\n> one\n> [x]\n> two\n[In reply to a message]\n> three\n\
                       [In reply to your message]\n> four\n[Forwarded message]";
        assert_eq!((parts.text.as_str(), parts.context.as_str()), ("mine\nalso", context));
    }

    #[test]
    fn contents_are_limited() {
        let mut content = Content::default();
        for _ in 0..100 {
            content.add_quote(QuoteKind::Forwarded, &"a".repeat(1_000), &"x".repeat(10_000));
            let attachment = Attachment { name: String::new(), media_type: None, bytes: None, source: None };
            content.attach([attachment]);
        }
        let parts = content.into_parts();
        assert!(parts.context.len() < MAX_QUOTES * (MAX_QUOTE + MAX_DETAIL + 50) && parts.context.ends_with('…'));
        assert_eq!(parts.attachments.len(), MAX_ATTACHMENTS);
        assert!(named("Poll", vec!["o".repeat(1_000); 1_000]).len() < MAX_DETAILS * (MAX_DETAIL + 3));
    }

    proptest! {
        #[test]
        fn nothing_ends_a_quote(author in "\\PC{0,20}", text in "(\\PC|[\n\r\u{85}\u{2028}\\[\\]>]){0,60}") {
            let mut content = Content::default();
            content.add_quote(QuoteKind::Answered, &author, &text);
            let context = content.into_parts().context;
            for line in context.split(['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}']).skip(1) {
                prop_assert!(line.starts_with("> "), "{context:?}");
            }
        }
    }
}
