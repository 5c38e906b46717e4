//! Conversion of Teams HTML to plain text
//! (<https://learn.microsoft.com/microsoftteams/platform/bots/how-to/format-your-bot-messages>).

use html5gum::{StartTag, Token, Tokenizer};

use crate::content::named;
use crate::incoming_text::text as clean;

/// Maximum number of HTML tokens that are read.
const MAX_TOKENS: usize = 20_000;
/// `itemtype` of quoted messages.
const REPLY: &str = "http://schema.skype.com/reply";
/// Elements that start a new line.
const BLOCKS: [&str; 17] = [
    "blockquote",
    "br",
    "codeblock",
    "div",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "li",
    "ol",
    "p",
    "pre",
    "table",
    "tr",
    "ul",
];

/// Contents of an HTML message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HtmlText {
    /// Text of the sender without mentions of the bot.
    pub(super) text: String,
    /// Quoted messages as author and text.
    pub(super) quotes: Vec<(String, String)>,
    pub(super) is_mentioned: bool,
}

/// Reads an HTML message. `own_names` are the names by which the bot is mentioned.
pub(super) fn read(html: &str, own_names: &[String]) -> HtmlText {
    let mut reader = Reader { own_names, ..Reader::default() };
    for token in Tokenizer::new(html).flatten().take(MAX_TOKENS) {
        reader.handle(token);
    }
    reader.end_quote();
    let Reader { text, quotes, is_mentioned, .. } = reader;
    HtmlText { text: trim_lines(&text), quotes, is_mentioned }
}

/// Decodes the entities of text in which `<` is literal.
pub(super) fn decode_entities(text: &str) -> String {
    let escaped = text.replace('<', "&lt;");
    let texts = Tokenizer::new(escaped.as_str()).flatten().filter_map(|token| match token {
        Token::String(text) => Some(lossy(&text)),
        _ => None,
    });
    texts.collect()
}

#[derive(Default)]
struct Reader<'a> {
    own_names: &'a [String],
    text: String,
    quotes: Vec<(String, String)>,
    is_mentioned: bool,
    /// Open quote with the number of nested elements of its kind.
    quote: Option<(Quote, usize)>,
    /// Text of the open mention.
    mention: Option<String>,
    link: Option<(String, usize)>,
    preformatted: usize,
    /// Nesting depth of hidden elements.
    hidden: usize,
}

#[derive(Default)]
struct Quote {
    author: String,
    is_author: bool,
    text: String,
}

impl Reader<'_> {
    fn handle(&mut self, token: Token) {
        match token {
            Token::StartTag(tag) => self.start(&tag),
            Token::EndTag(tag) => self.end(&lossy(&tag.name)),
            Token::String(text) if self.hidden == 0 => self.push_text(&lossy(&text)),
            _ => {}
        }
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let name = lossy(&tag.name);
        let attribute = |name: &str| tag.attributes.get(name.as_bytes()).map(|value| lossy(value)).unwrap_or_default();
        let kind = attribute("itemtype").to_ascii_lowercase();
        if let Some((quote, depth)) = &mut self.quote {
            *depth += usize::from(name == "blockquote");
            quote.is_author |= name == "strong";
        } else if name == "blockquote" && kind == REPLY {
            self.quote = Some((Quote::default(), 1));
            return;
        }
        if BLOCKS.contains(&name.as_str()) {
            self.begin_line();
        }
        match name.as_str() {
            "li" => self.push("- "),
            "td" | "th" if !self.line_is_empty() => self.push(" | "),
            "pre" | "codeblock" => self.preformatted += 1,
            "script" | "style" | "title" if !tag.self_closing => self.hidden += 1,
            "at" => self.mention = Some(String::new()),
            "a" => self.link = Some((attribute("href"), self.target().len())),
            "img" | "emoji" => {
                let (alternative, class) = (attribute("alt"), kind + &attribute("class").to_ascii_lowercase());
                let is_emoji = name == "emoji" || class.contains("emoji") || class.contains("emoticon");
                let shown = if is_emoji { alternative } else { named("Image", [alternative]) };
                self.push(&shown);
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "blockquote" => {
                if let Some((_, depth)) = &mut self.quote {
                    *depth -= 1;
                    if *depth == 0 {
                        self.end_quote();
                    }
                }
                self.begin_line();
            }
            "strong" => {
                if let Some((quote, _)) = &mut self.quote {
                    quote.is_author = false;
                }
            }
            "script" | "style" | "title" => self.hidden = self.hidden.saturating_sub(1),
            "pre" | "codeblock" => {
                self.preformatted = self.preformatted.saturating_sub(1);
                self.begin_line();
            }
            "at" => {
                let Some(mention) = self.mention.take() else { return };
                let is_own = self.own_names.iter().any(|name| *name == mention.trim());
                self.is_mentioned |= is_own && self.quote.is_none();
                if !is_own {
                    self.push(&mention);
                }
            }
            "a" => {
                let Some((url, start)) = self.link.take() else { return };
                let label = self.target().get(start..).unwrap_or_default().trim().to_owned();
                if !url.is_empty() && label != url && !label.is_empty() {
                    self.push(&format!(" ({url})"));
                }
            }
            _ if BLOCKS.contains(&name) => self.begin_line(),
            _ => {}
        }
    }

    fn end_quote(&mut self) {
        if let Some((quote, _)) = self.quote.take() {
            self.quotes.push((quote.author.trim().to_owned(), trim_lines(&quote.text)));
        }
    }

    fn target(&mut self) -> &mut String {
        match &mut self.quote {
            Some((quote, _)) => &mut quote.text,
            None => &mut self.text,
        }
    }

    fn push(&mut self, text: &str) {
        self.target().push_str(text);
    }

    fn push_text(&mut self, text: &str) {
        if let Some(mention) = &mut self.mention {
            mention.push_str(text);
            return;
        }
        if let Some((quote, _)) = &mut self.quote
            && quote.is_author
            && quote.text.trim().is_empty()
        {
            quote.author.push_str(text);
            return;
        }
        if self.preformatted > 0 {
            self.push(text);
            return;
        }
        let target = self.target();
        for character in text.chars() {
            // A non-breaking space is kept as a space.
            if !character.is_whitespace() || character == '\u{a0}' {
                target.push(if character == '\u{a0}' { ' ' } else { character });
            } else if !target.is_empty() && !target.ends_with([' ', '\n']) {
                target.push(' ');
            }
        }
    }

    fn begin_line(&mut self) {
        let target = self.target();
        if !target.is_empty() && !target.ends_with('\n') {
            target.push('\n');
        }
    }

    fn line_is_empty(&mut self) -> bool {
        let target = self.target();
        target.is_empty() || target.ends_with('\n')
    }
}

fn trim_lines(text: &str) -> String {
    clean(&text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n"))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(html: &str) -> String {
        read(html, &["R&D Bot".to_owned()]).text
    }

    #[test]
    fn html_is_converted_to_displayed_text() {
        for (html, expected) in [
            ("<div><div>Use x &lt; 5 &copy;</div></div>", "Use x < 5 ©"),
            ("<p>a  b\n c</p><p>d<br>e</p>", "a b c\nd\ne"),
            ("<ul><li>a</li><li>b</li></ul>c", "- a\n- b\nc"),
            ("<table><tr><th>a</th><td>b</td></tr><tr><td>c</td></tr></table>", "a | b\nc"),
            (
                "<a href=\"https://x.y/?a=1&amp;b=2\">here</a> <a href=\"https://x.y\">https://x.y</a>",
                "here (https://x.y/?a=1&b=2) https://x.y",
            ),
            ("<pre>def f():\n    return 1</pre>", "def f():\n    return 1"),
            ("<at id=\"0\">R&amp;D Bot</at>&nbsp;ask <at id=\"1\">Bob</at>", "ask Bob"),
            (
                "<emoji alt=\"🎉\"></emoji><img itemtype=\"http://schema.skype.com/Emoji\" alt=\"😀\"><img alt=\"cat\">",
                "🎉😀[Image: cat]",
            ),
            ("<script>x()</script><style>y</style>z", "z"),
            ("a < b <attachment id=\"1\"></attachment>", "a < b"),
        ] {
            assert_eq!(text(html), expected, "{html}");
        }
        assert!(read("<at>R&amp;D Bot</at>", &["R&D Bot".to_owned()]).is_mentioned);
        assert_eq!(decode_entities("a &lt; b < c &amp;amp; R&D"), "a < b < c &amp; R&D");
    }

    #[test]
    fn quoted_messages_are_separated_from_the_text() {
        let html = "<blockquote itemscope itemtype=\"http://schema.skype.com/Reply\" itemid=\"1\"><strong>Bob</strong>\
                    <span itemprop=\"time\"></span><p itemprop=\"preview\">Guten <b>Morgen</b></p></blockquote><p>translate</p>";
        let expected = HtmlText {
            text: "translate".to_owned(),
            quotes: vec![("Bob".to_owned(), "Guten Morgen".to_owned())],
            is_mentioned: false,
        };
        assert_eq!(read(html, &[]), expected);
        assert_eq!(text("<blockquote>own</blockquote>x"), "own\nx");
    }

    proptest! {
        #[test]
        fn read_never_panics(html in "(\\PC|</?(blockquote|at|a|pre|strong|p|li|td)( itemtype=\"http://schema.skype.com/Reply\")?>){0,40}") {
            read(&html, &["x".to_owned()]);
            decode_entities(&html);
        }
    }
}
