//! Markdown as Slack's `mrkdwn` (<https://docs.slack.dev/messaging/formatting-message-text>).

use url::Url;

use crate::markup::{self, Style, begin_lines, block_in_backticks, characters, mark_lines};

/// Of a section with buttons under it. A text alone is cut at 40,000, and Slack advises 4,000 (`chat.postMessage`).
/// 12,000 is for blocks of Markdown, which are not used here.
const LIMIT: usize = 3000;

const STYLE: Style = Style {
    limit: LIMIT,
    measure: characters,
    escape,
    strong: |text| mark_lines(text, '*'),
    emphasis: |text| mark_lines(text, '_'),
    strikethrough: |text| mark_lines(text, '~'),
    code,
    code_block: |text, _| block_in_backticks(&escape(text)),
    link,
    // A star in it would end it.
    heading: |text, _| mark_lines(&text.replace('*', ""), '*'),
    quote: |text| begin_lines(text, "> "),
    bullet: "• ",
};

/// Text that is sent with formatting turned off.
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

/// Code ends with the first backtick, whatever stands before it.
fn code(text: &str) -> String {
    if text.contains('`') { escape(text) } else { format!("`{}`", escape(text)) }
}

/// What is no address that Slack links is written out.
fn link(label: &str, url: &str) -> String {
    let label = without_links(label).replace('\n', " ");
    let shown = escape(url);
    let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https" | "mailto" | "tel"));
    match parsed {
        Some(_) if label == shown && !url.contains('|') => format!("<{shown}>"),
        // Without characters that would end it.
        Some(url) => format!("<{}|{}>", escape(&url.as_str().replace('|', "%7C")), label.replace('|', "¦")),
        None if label == shown => label,
        None => format!("{label} ({shown})"),
    }
}

/// Links do not nest; a picture in a link would be one.
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
