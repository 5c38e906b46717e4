//! Discord's Markdown (<https://docs.discord.com/developers/reference#message-formatting>).

use url::Url;

use crate::markup::{self, Style, utf16_units, without_fences};

/// Maximum message length for applications; the 4,000 of the OpenAPI document apply to subscribers. Discord counts code
/// points according to its staff (discord-api-docs), which never exceed UTF-16 code units.
const MAX_MESSAGE_UNITS: usize = 2000;
const MAX_LANGUAGE_CHARS: usize = 32;
/// Deepest heading level of Discord.
const MAX_HEADING: u8 = 3;

const STYLE: Style = Style {
    limit: MAX_MESSAGE_UNITS,
    measure: utf16_units,
    escape,
    strong: |text| format!("**{text}**"),
    emphasis: |text| format!("*{text}*"),
    strikethrough: |text| format!("~~{text}~~"),
    code: |text| if text.contains('`') { escape(text) } else { format!("`{text}`") },
    code_block,
    link,
    heading: |text, level| format!("{} {text}", "#".repeat(level.min(MAX_HEADING).into())),
    // Quotes cannot be nested.
    quote: |text| {
        let lines = text.lines().map(|line| format!("> {}", line.trim_start_matches("> ")));
        lines.collect::<Vec<_>>().join("\n")
    },
    bullet: "- ",
};

pub(super) fn render(markdown: &str) -> Vec<String> {
    markup::render(markdown, &STYLE)
}

pub(super) fn render_text(title: &str, text: &str) -> Vec<String> {
    markup::render_text(title, text, &STYLE)
}

/// Escapes characters that may start markup with a backslash, except within URLs, where it would become part of them.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut is_line_start = true;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if rest.starts_with("https://") || rest.starts_with("http://") {
            let end = rest.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(rest.len());
            let (url, after) = rest.split_at(end);
            escaped.push_str(&url.replace('\0', ""));
            rest = after;
            is_line_start = false;
            continue;
        }
        let begins_something = matches!(character, '\\' | '*' | '_' | '~' | '`' | '|' | '<' | '[' | ']');
        if begins_something || (is_line_start && matches!(character, '#' | '-' | '>')) {
            escaped.push('\\');
        }
        if character != '\0' {
            escaped.push(character);
        }
        is_line_start = character == '\n' || (is_line_start && character.is_whitespace());
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
    }
    escaped
}

fn code_block(text: &str, language: &str) -> String {
    let is_part = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '+' | '#' | '-' | '_');
    let language: String = language.chars().take_while(is_part).take(MAX_LANGUAGE_CHARS).collect();
    format!("```{language}\n{}\n```", without_fences(text))
}

/// Formats a link. Angle brackets suppress the preview. A URL that Discord does not link is written as text.
fn link(label: &str, url: &str) -> String {
    if label == url && !url.contains(['<', '>']) && ["https://", "http://"].iter().any(|start| url.starts_with(start)) {
        return format!("<{url}>");
    }
    let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let Some(parsed) = parsed else {
        return if label == escape(url) { label.to_owned() } else { format!("{label} ({})", escape(url)) };
    };
    let address = parsed.as_str().replace('<', "%3C").replace('>', "%3E").replace(')', "%29").replace('(', "%28");
    if label.contains("://") || label.contains('\n') {
        // Discord does not link a label that contains a URL or a line break.
        format!("{label} <{address}>")
    } else {
        format!("[{label}](<{address}>)")
    }
}
