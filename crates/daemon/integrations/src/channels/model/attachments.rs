//! Paths of message files in a workspace, and their description for the agent.

use std::collections::HashSet;

use agentd_chat_platforms::Attachment;
use agentd_engine::workspaces::ATTACHMENTS;

use super::message::ChannelMessage;

/// Maximum number of files per message.
pub(crate) const MAX_FILES: usize = 10;
/// Maximum size of a file.
pub(crate) const MAX_FILE_BYTES: u64 = 20 << 20;
/// Stays below the limit of file systems, with room for a prefix that makes names unique.
const MAX_NAME_BYTES: usize = 120;
/// Maximum length of an extension; longer ones count as part of the name.
const MAX_EXTENSION_BYTES: usize = 12;
/// Length of the id suffix that distinguishes the messages of a day.
const SHORT_ID_CHARACTERS: usize = 10;

/// Result of fetching a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FetchedFile {
    /// Path of the file in the workspace.
    At(String),
    /// Reason, phrased as the end of a sentence.
    Failed(String),
}

impl ChannelMessage {
    /// Returns the paths of the files; deterministic for a message.
    pub(crate) fn file_paths(&self) -> Vec<String> {
        let (time, id) = (self.received_at.to_string(), self.id.as_str());
        let day = time.get(..10).unwrap_or(&time);
        let short = id.get(id.len().saturating_sub(SHORT_ID_CHARACTERS)..).unwrap_or(id);
        let mut taken = HashSet::new();
        let paths = self.attachments.iter().enumerate().map(|(index, attachment)| {
            let mut name = safe_name(attachment);
            while !taken.insert(name.to_lowercase()) {
                name = format!("{}-{name}", index + 1);
            }
            format!("{ATTACHMENTS}/{day}-{short}/{name}")
        });
        paths.collect()
    }

    /// Returns the text for the agent: quoted context, message text, and attached files. `files` contains the results
    /// of the first files; the others were not fetched.
    pub(crate) fn text(&self, files: &[FetchedFile]) -> String {
        let mut text = self.context.clone();
        if !text.is_empty() && !self.content.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&self.content);
        for (index, attachment) in self.attachments.iter().enumerate() {
            if !text.is_empty() {
                text.push('\n');
            }
            let description = describe_attachment(attachment);
            text.push_str(&match files.get(index) {
                Some(FetchedFile::At(path)) => {
                    format!("[a file, in your workspace at `{path}`: {description}]")
                }
                Some(FetchedFile::Failed(reason)) => {
                    format!("[a file that could not be fetched: {description}; the reason: {reason}]")
                }
                None => format!("[a file that cannot be opened here: {description}]"),
            });
        }
        text
    }
}

fn describe_attachment(attachment: &Attachment) -> String {
    // Quoted, because the name is untrusted.
    let quoted = serde_json::Value::from(attachment.name.as_str()).to_string();
    let name = if attachment.name.is_empty() { "without a name" } else { &quoted };
    let is_plain = |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/.+-".contains(&byte));
    let media_type = attachment.media_type.as_deref().and_then(|text| text.split(';').next()).filter(is_plain);
    let media_type = media_type.unwrap_or("of an unknown type");
    let size = attachment.bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
    format!("{name}, {media_type}{size}")
}

/// Returns a safe file name: letters, digits and a few signs, not hidden, limited in length.
fn safe_name(attachment: &Attachment) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || " ._-+,()".contains(c);
    let plain: String = attachment.name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let plain = plain.trim_matches(['.', ' ']);
    if plain.is_empty() {
        return format!("file{}", extension_of(attachment.media_type.as_deref().unwrap_or_default()));
    }
    if plain.len() <= MAX_NAME_BYTES {
        return plain.to_owned();
    }
    let (stem, extension) = match plain.rfind('.').filter(|at| plain.len() - at <= MAX_EXTENSION_BYTES) {
        Some(at) => plain.split_at(at),
        None => (plain, ""),
    };
    format!("{}{extension}", &stem[..stem.floor_char_boundary(MAX_NAME_BYTES - extension.len())])
}

/// Returns the extension for types that platforms send without a name.
fn extension_of(media_type: &str) -> &'static str {
    match media_type.split(';').next().unwrap_or_default().trim() {
        "image/jpeg" => ".jpg",
        "image/png" => ".png",
        "image/gif" => ".gif",
        "image/webp" => ".webp",
        "audio/ogg" => ".ogg",
        "audio/mpeg" => ".mp3",
        "audio/mp4" => ".m4a",
        "video/mp4" => ".mp4",
        "application/pdf" => ".pdf",
        "text/plain" => ".txt",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use agentd_base::Timestamp;
    use agentd_chat_platforms::{Address, Chat, Platform, Sender};
    use proptest::prelude::*;

    use super::*;
    use crate::channels::model::ChannelMessageId;

    fn file(name: &str, media_type: Option<&str>) -> Attachment {
        let media_type = media_type.map(str::to_owned);
        Attachment { name: name.to_owned(), media_type, bytes: None, source: None }
    }

    fn message(content: &str, attachments: Vec<Attachment>) -> ChannelMessage {
        ChannelMessage {
            id: ChannelMessageId::from("cmsg_01arz3ndektsv4rrffq69g5fav"),
            platform: Platform::Telegram,
            external_id: "1".to_owned(),
            sender: Sender { id: "1".to_owned(), name: "Ada".to_owned() },
            is_trusted: true,
            chat: Chat { id: "1".to_owned(), thread: None, is_group: false },
            content: content.to_owned(),
            context: String::new(),
            attachments,
            album: None,
            is_addressed: true,
            reply_to: Address::of_channel("1"),
            received_at: Timestamp::from_micros(0),
        }
    }

    #[test]
    fn files_are_described_in_the_text() {
        let file = Attachment { bytes: Some(3), ..file("a.pdf", None) };
        let expected = "[a file that cannot be opened here: \"a.pdf\", of an unknown type, 3 bytes]";
        assert_eq!(message("", vec![file.clone()]).text(&[]), expected);
        assert_eq!(message("See:", vec![file.clone()]).text(&[]), format!("See:\n{expected}"));
        let files = [FetchedFile::At("a/b".to_owned()), FetchedFile::Failed("it is gone".to_owned())];
        let text = message("See:", vec![file.clone(), file.clone(), file]).text(&files);
        assert!(text.contains("at `a/b`: \"a.pdf\"") && text.contains("the reason: it is gone"), "{text}");
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn quoted_context_precedes_the_text() {
        let context = "[In reply to a message from Bob]\n> Hi".to_owned();
        let answer = ChannelMessage { context: context.clone(), ..message("translate", Vec::new()) };
        assert_eq!(answer.text(&[]), format!("{context}\n\ntranslate"));
        let forward = ChannelMessage { context: context.clone(), ..message("", Vec::new()) };
        assert_eq!(forward.text(&[]), context);
    }

    #[test]
    fn equal_names_get_distinct_paths() {
        let names =
            [("3-a.txt", None), ("a.txt", None), ("A.txt", None), ("", Some("image/jpeg")), ("../../etc/passwd", None)];
        let message = message("", names.map(|(name, kind)| file(name, kind)).into());
        let folder = "attachments/1970-01-01-ffq69g5fav";
        let paths =
            ["3-a.txt", "a.txt", "3-3-A.txt", "file.jpg", "_.._etc_passwd"].map(|name| format!("{folder}/{name}"));
        assert_eq!(message.file_paths(), paths);
    }

    proptest! {
        #[test]
        fn safe_name_is_never_empty_hidden_or_nested(name in ".{0,300}") {
            let name = safe_name(&file(&name, None));
            prop_assert!(!name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.starts_with('.'));
            prop_assert!(!name.contains(['/', '\\', '`']) && !name.contains(char::is_control));
        }
    }
}
