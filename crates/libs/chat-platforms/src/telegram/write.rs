//! Markdown as Telegram's HTML (<https://core.telegram.org/bots/api#html-style>).

use url::Url;

use crate::markup::{self, Style, utf16_units};

/// "1-4096 characters after entities parsing" (the Bot API on `sendMessage`). Counted here are code units of UTF-16, as
/// entities are, and the markup as well: never less than Telegram counts.
const LIMIT: usize = 4096;
const MAX_LANGUAGE: usize = 32;

const STYLE: Style = Style {
    limit: LIMIT,
    measure: utf16_units,
    escape,
    strong: |text| format!("<b>{text}</b>"),
    emphasis: |text| format!("<i>{text}</i>"),
    strikethrough: |text| format!("<s>{text}</s>"),
    code: |text| format!("<code>{}</code>", escape(text)),
    code_block,
    link,
    heading: |text, _| format!("<b>{text}</b>"),
    // Quotes do not nest ("blockquote entities can't be nested": formatting options of the Bot API).
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

/// Telegram drops the address of a link that leads nowhere it knows, so such a one is written out.
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

/// Links do not nest; a picture in a link would be one.
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
