//! Telegram's HTML (<https://core.telegram.org/bots/api#html-style>).

use url::Url;

use crate::markup::{self, Style, utf16_units};

/// Maximum message length: "1-4096 characters after entities parsing" (Bot API, `sendMessage`). UTF-16 code units of
/// text and markup are counted, which is never less than Telegram counts.
const MAX_MESSAGE_UNITS: usize = 4096;
const MAX_LANGUAGE: usize = 32;

const STYLE: Style = Style {
    limit: MAX_MESSAGE_UNITS,
    measure: utf16_units,
    escape,
    strong: |text| format!("<b>{text}</b>"),
    emphasis: |text| format!("<i>{text}</i>"),
    strikethrough: |text| format!("<s>{text}</s>"),
    code: |text| format!("<code>{}</code>", escape(text)),
    code_block,
    link,
    heading: |text, _| format!("<b>{text}</b>"),
    // Quotes cannot be nested ("blockquote entities can't be nested": formatting options of the Bot API).
    quote: |text| format!("<blockquote>{}</blockquote>", text.replace("<blockquote>", "").replace("</blockquote>", "")),
    bullet: "• ",
};

pub(super) fn render(markdown: &str) -> Vec<String> {
    markup::render(markdown, &STYLE)
}

pub(super) fn render_text(title: &str, text: &str) -> Vec<String> {
    markup::render_text(title, text, &STYLE)
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\0' => {}
            other => escaped.push(other),
        }
    }
    escaped
}

fn code_block(text: &str, language: &str) -> String {
    let is_part = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '+' | '#' | '-' | '_');
    let language: String = language.chars().take_while(is_part).take(MAX_LANGUAGE).collect();
    if language.is_empty() {
        format!("<pre>{}</pre>", escape(text))
    } else {
        format!("<pre><code class=\"language-{language}\">{}</code></pre>", escape(text))
    }
}

/// Formats a link. Telegram drops the URL of a link with an unknown scheme, so it is written as text.
fn link(label: &str, url: &str) -> String {
    let is_known = Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https" | "mailto" | "tel"));
    let label = without_links(label);
    if is_known {
        format!("<a href=\"{}\">{label}</a>", escape(url))
    } else if label == escape(url) {
        label
    } else {
        format!("{label} ({})", escape(url))
    }
}

/// Removes nested links, which come from a picture in a link.
fn without_links(markup: &str) -> String {
    let mut left = String::new();
    let mut rest = markup;
    while let Some((before, tag)) = rest.split_once("<a ") {
        left.push_str(before);
        rest = tag.split_once('>').map_or("", |(_, after)| after);
    }
    left.push_str(rest);
    left.replace("</a>", "")
}
