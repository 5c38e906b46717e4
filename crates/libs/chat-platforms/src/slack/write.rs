//! Slack's `mrkdwn` (<https://docs.slack.dev/messaging/formatting-message-text>).

use url::Url;

use crate::markup::{self, Style, block_in_backticks, characters, mark_lines, prefix_lines};

/// Maximum length of a section with buttons. A plain text is truncated at 40,000, and Slack recommends 4,000
/// (`chat.postMessage`). The limit of 12,000 applies to Markdown blocks, which are not used here.
const MAX_SECTION_CHARS: usize = 3000;

const STYLE: Style = Style {
    limit: MAX_SECTION_CHARS,
    measure: characters,
    escape,
    strong: |text| mark_lines(text, '*'),
    emphasis: |text| mark_lines(text, '_'),
    strikethrough: |text| mark_lines(text, '~'),
    code,
    code_block: |text, _| block_in_backticks(&escape(text)),
    link,
    // An asterisk inside would end the bold text.
    heading: |text, _| mark_lines(&text.replace('*', ""), '*'),
    quote: |text| prefix_lines(text, "> "),
    bullet: "• ",
};

/// Style of text that is sent with formatting disabled.
const PLAIN: Style = Style { strong: str::to_owned, ..STYLE };

pub(super) fn render(markdown: &str) -> Vec<String> {
    markup::render(markdown, &STYLE)
}

pub(super) fn render_text(title: &str, text: &str) -> Vec<String> {
    markup::render_text(title, text, &PLAIN)
}

pub(super) fn escape(text: &str) -> String {
    text.replace('\0', "").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Formats inline code, which ends at the first backtick and cannot contain one.
fn code(text: &str) -> String {
    if text.contains('`') { escape(text) } else { format!("`{}`", escape(text)) }
}

/// Formats a link. A URL that Slack does not link is written as text.
fn link(label: &str, url: &str) -> String {
    let label = without_links(label).replace('\n', " ");
    let shown = escape(url);
    let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https" | "mailto" | "tel"));
    match parsed {
        Some(_) if label == shown && !url.contains('|') => format!("<{shown}>"),
        // Replace characters that would end the link.
        Some(url) => format!("<{}|{}>", escape(&url.as_str().replace('|', "%7C")), label.replace('|', "¦")),
        None if label == shown => label,
        None => format!("{label} ({shown})"),
    }
}

/// Removes nested links, which come from a picture in a link.
fn without_links(markup: &str) -> String {
    let mut left = String::new();
    let mut rest = markup;
    while let Some((before, link)) = rest.split_once('<') {
        left.push_str(before);
        let (inside, after) = link.split_once('>').unwrap_or((link, ""));
        left.push_str(inside.split_once('|').map_or(inside, |(_, label)| label));
        rest = after;
    }
    left.push_str(rest);
    left
}
