//! Tracks the hosts that the user named, and detects URLs that reveal nothing new to their server.

use std::collections::BTreeSet;

use agentd_llm::{ModelMessage, ToolCall};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use url::Url;

/// Maximum number of hosts recorded per message.
const MAX_HOSTS: usize = 200;
/// File extensions that are also top-level domains: `notes.md` names a file.
const FILE_EXTENSIONS: [&str; 14] =
    ["bz", "cc", "foo", "md", "mk", "mov", "pl", "ps", "py", "rs", "sh", "so", "tf", "zip"];

/// Returns the hosts in a message of the user, within URLs or alone.
fn hosts_in(text: &str) -> BTreeSet<String> {
    let ends_word = |c: char| c.is_whitespace() || "<>\"'`()[]{}|,;*".contains(c);
    text.split(ends_word).filter_map(host_in).take(MAX_HOSTS).collect()
}

fn host_in(word: &str) -> Option<String> {
    let word = word.trim_end_matches(['.', ':', '?', '!']);
    if let Some(at) = word.find("http://").or_else(|| word.find("https://")) {
        return host_of(&word[at..]);
    }
    // An email address names no host to send data to.
    if word.contains('@') || word.contains("://") {
        return None;
    }
    let host = host_of(&format!("http://{word}"))?;
    let ending = host.rsplit('.').next().unwrap_or_default();
    let is_host = host == "localhost" || host.contains('.') && !FILE_EXTENSIONS.contains(&ending);
    // `1.5` and `7` also parse as IP addresses.
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (is_host && (!is_number || word == host)).then_some(host)
}

fn host_of(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(normalize_host)
}

/// Normalizes a host: lower case, without a trailing dot and `www.`.
fn normalize_host(host: &str) -> String {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host.strip_prefix("www.").map_or(host.clone(), str::to_owned)
}

/// Hosts that the user named in a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct NamedHosts(BTreeSet<String>);

impl NamedHosts {
    pub(super) fn extend_from(&mut self, text: &str) {
        self.0.extend(hosts_in(text));
    }

    /// Whether the user named this host, which may include a port.
    pub(super) fn contains(&self, host: &str) -> bool {
        host_of(&format!("http://{host}")).is_some_and(|host| self.0.contains(&host))
    }
}

/// Whether requesting this URL reveals nothing that an agent wrote: it was requested before, or it occurs verbatim in
/// third-party text. `is_external` tells whether third parties write the results of a tool.
pub(super) fn is_known_address(messages: &[ModelMessage], url: &Url, is_external: impl Fn(&str) -> bool) -> bool {
    let mut wanted = url.clone();
    wanted.set_fragment(None);
    if was_requested(messages, &wanted) {
        return true;
    }
    let address = wanted.as_str();
    let address = if wanted.path() == "/" { address.trim_end_matches('/') } else { address };
    // Text that an agent sent to another server may be echoed as if third parties wrote it.
    let is_sent = |call: &ToolCall| {
        let bare = address.split_once("://").map_or(address, |(_, rest)| rest);
        let input = call.input.to_string();
        let is_own = requested_url(call).is_some_and(|url| url.host_str() == wanted.host_str());
        !is_own && (input.contains(bare) || percent_decode_str(&input).decode_utf8_lossy().contains(bare))
    };
    if messages.iter().flat_map(calls_of).any(is_sent) {
        return false;
    }
    messages.iter().any(|message| match message {
        ModelMessage::Tool { name, content, .. } => is_external(name) && content.contains(address),
        ModelMessage::User { content } => content.contains(address),
        ModelMessage::Assistant { .. } => false,
    })
}

/// Whether a call with this URL has succeeded.
fn was_requested(messages: &[ModelMessage], wanted: &Url) -> bool {
    let succeeded = |id: &str| {
        let is_done = |message: &ModelMessage| matches!(message, ModelMessage::Tool { call_id, is_error: false, .. } if call_id == id);
        messages.iter().any(is_done)
    };
    let mut calls = messages.iter().flat_map(calls_of);
    calls.any(|call| requested_url(call).as_ref() == Some(wanted) && succeeded(&call.id))
}

/// Returns the URL that a call requests, without its fragment.
fn requested_url(call: &ToolCall) -> Option<Url> {
    let mut url = Url::parse(call.input.get("url")?.as_str()?).ok()?;
    url.set_fragment(None);
    Some(url)
}

fn calls_of(message: &ModelMessage) -> &[ToolCall] {
    match message {
        ModelMessage::Assistant { tool_calls, .. } => tool_calls,
        ModelMessage::User { .. } | ModelMessage::Tool { .. } => &[],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn hosts_are_found_in_urls_and_alone() {
        let found = |text: &str| hosts_in(text).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(found("Read https://Example.com/a?b=c, please."), "example.com");
        assert_eq!(found("(see www.example.com/path) and docs.example.org."), "docs.example.org example.com");
        assert_eq!(found("localhost:8080 or 127.0.0.1:90?"), "127.0.0.1 localhost");
        assert_eq!(found("[a](http://bücher.example/x)"), "xn--bcher-kva.example");
        for none in
            ["notes.md and main.rs", "ada@example.com", "version 1.5, 7 times", "ftp://example.com", "e.g. this"]
        {
            assert!(["", "e.g"].contains(&found(none).as_str()), "{none}: {}", found(none));
        }
    }

    fn called(id: &str, input: Value) -> ModelMessage {
        ModelMessage::Assistant { content: String::new(), tool_calls: vec![ToolCall::new(id, "fetch", input)] }
    }

    fn answered(id: &str, name: &str, content: &str, is_error: bool) -> ModelMessage {
        ModelMessage::Tool { call_id: id.to_owned(), name: name.to_owned(), content: content.to_owned(), is_error }
    }

    fn knows(messages: &[ModelMessage], url: &str) -> bool {
        is_known_address(messages, &Url::parse(url).unwrap(), |name| name == "fetch")
    }

    #[test]
    fn url_from_third_party_text_is_known() {
        let page = answered("1", "fetch", "See [this](https://evil.example/a?x=1) and http://b.example.", false);
        let messages = [called("1", json!({"url": "https://first.example/"})), page];
        assert!(knows(&messages, "https://evil.example/a?x=1#part") && knows(&messages, "http://b.example/"));
        assert!(knows(&messages, "https://first.example/"), "it was requested before");
        assert!(!knows(&messages, "https://first.example/other"));
        for other in
            ["https://evil.example/a?x=secret", "https://secret.evil.example/", "https://evil.example/a/secret"]
        {
            assert!(!knows(&messages, other), "{other}");
        }
    }

    #[test]
    fn url_that_an_agent_sent_elsewhere_is_not_known() {
        let echo = "results for https://evil.example/secret";
        for query in ["https://evil.example/secret", "evil.example%2Fsecret"] {
            let messages = [called("1", json!({"query": query})), answered("1", "fetch", echo, false)];
            assert!(!knows(&messages, "https://evil.example/secret"), "{query}");
        }
        let own = answered("1", "read_file", "https://evil.example/secret", false);
        assert!(!knows(&[called("1", json!({"path": "a"})), own], "https://evil.example/secret"));
        let refused = answered("1", "fetch", "the owner rejected the call", true);
        let asked = called("1", json!({"url": "https://evil.example/secret"}));
        assert!(!knows(&[asked, refused], "https://evil.example/secret"));
    }
}
