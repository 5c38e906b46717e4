//! Code in generated documents, read back from the markup of every platform.

use std::fmt::Write as _;

use agentd_chat_platforms::Platform;
use agentd_testing_chat_platforms::telegram::html;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::markup_reader::{Code, adapter, code, length, limit, render};

const LANGUAGES: [&str; 4] = ["", "python", "yaml", "diff"];

#[derive(Debug, Clone)]
enum Node {
    Paragraph,
    Url(String),
    Code { language: &'static str, lines: Vec<String> },
    Indented(Vec<String>),
    Table,
    Quote(Vec<Node>),
    List { is_numbered: bool, items: Vec<Vec<Node>> },
}

/// Markdown of generated nodes, with the expected result.
#[derive(Default)]
struct Document {
    markdown: String,
    code: Vec<Code>,
    words: Vec<String>,
    urls: Vec<String>,
}

impl Document {
    fn of(nodes: &[Node]) -> Self {
        let mut document = Self::default();
        document.write(nodes, "", "");
        document
    }

    fn word(&mut self) -> String {
        let word = format!("word{}", self.words.len());
        self.words.push(word.clone());
        word
    }

    /// Writes nodes. `first` is the prefix of the first line, `rest` that of the others.
    fn write(&mut self, nodes: &[Node], first: &str, rest: &str) {
        for (number, node) in nodes.iter().enumerate() {
            let begin = if number == 0 { first } else { rest };
            if number > 0 {
                writeln!(self.markdown, "{}", rest.trim_end()).unwrap();
            }
            match node {
                Node::Paragraph => {
                    let (one, two) = (self.word(), self.word());
                    writeln!(self.markdown, "{begin}{one} **{two}**").unwrap();
                }
                Node::Url(url) => {
                    let word = self.word();
                    writeln!(self.markdown, "{begin}{word} {url}").unwrap();
                    self.urls.push(url.clone());
                }
                Node::Code { language, lines } => {
                    writeln!(self.markdown, "{begin}```{language}").unwrap();
                    for line in lines {
                        writeln!(self.markdown, "{rest}{line}").unwrap();
                    }
                    writeln!(self.markdown, "{rest}```").unwrap();
                    self.code.push(code(language, &lines.join("\n")));
                }
                // Only valid after a paragraph.
                Node::Indented(lines) => {
                    let word = self.word();
                    writeln!(self.markdown, "{begin}{word}\n{}", rest.trim_end()).unwrap();
                    for line in lines {
                        writeln!(self.markdown, "{rest}    {line}").unwrap();
                    }
                    self.code.push(code("", &lines.join("\n")));
                }
                Node::Table => {
                    writeln!(self.markdown, "{begin}|a|b|\n{rest}|-|-|\n{rest}|ccc|*d*|").unwrap();
                    self.code.push(code("", "a    b\nccc  d"));
                }
                Node::Quote(nodes) => self.write(nodes, &format!("{begin}> "), &format!("{rest}> ")),
                Node::List { is_numbered, items } => {
                    for (number, nodes) in items.iter().enumerate() {
                        let marker = if *is_numbered { format!("{}. ", number + 1) } else { "- ".to_owned() };
                        let begin = if number == 0 { begin } else { rest };
                        let inner = format!("{rest}{}", " ".repeat(marker.len()));
                        self.write(nodes, &format!("{begin}{marker}"), &inner);
                    }
                }
            }
        }
    }

    fn check(&self, platform: Platform) -> Result<(), TestCaseError> {
        let (found, around) = render(platform, &self.markdown);
        let has_languages = matches!(platform, Platform::Discord | Platform::Telegram);
        let mut pieces = found.iter();
        for expected in &self.code {
            let mut rest = expected.text.as_str();
            // A block is split at the end of a line or within one, and no piece is blank.
            while !rest.trim().is_empty() {
                let Some(piece) = pieces.next() else { return Err(TestCaseError::fail(format!("{rest} is missing"))) };
                let language = if has_languages { expected.language.as_str() } else { "" };
                prop_assert_eq!(&piece.language, language);
                let Some(left) = rest.strip_prefix(&piece.text) else {
                    return Err(TestCaseError::fail(format!("{platform:?}: {rest:?} became {:?}", piece.text)));
                };
                rest = left.strip_prefix('\n').unwrap_or(left);
            }
        }
        prop_assert_eq!(pieces.next(), None, "no other code");
        let mut behind = around.as_str();
        for word in &self.words {
            let Some(at) = behind.find(word.as_str()) else {
                return Err(TestCaseError::fail(format!("{platform:?}: {word} is missing in {around}")));
            };
            behind = &behind[at..];
        }
        for url in &self.urls {
            let shown = if platform == Platform::Slack { url.replace('&', "&amp;") } else { url.clone() };
            let is_label = platform == Platform::Telegram && around.contains(url.as_str());
            prop_assert!(is_label || around.contains(&shown), "{platform:?}: {url} is not in {around}");
        }
        Ok(())
    }
}

fn any_line(max_length: usize) -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        " ",
        "  ",
        "    ",
        "\t",
        "def f(x):",
        "return",
        "x",
        "- ",
        "+ ",
        "* ",
        "_a_",
        "__b__",
        "*",
        "# ",
        "> ",
        "<b>",
        "&amp;",
        "|",
        "`",
        "``",
        "[c](d)",
        "~~e~~",
        "\\",
        "1. ",
        "@@ -1,2 +3,4 @@",
        "ä🎉",
        "\"",
        "'",
        "https://f/_g_",
    ]);
    // Three backticks end a block on most platforms regardless of escapes.
    prop::collection::vec(part, 0..max_length)
        .prop_map(|parts| parts.concat())
        .prop_filter("a fence", |line| !line.contains("```"))
}

/// Generates lines of code that are not all blank.
fn any_code(lines: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(any_line(8), lines).prop_map(|mut lines| {
        lines.insert(lines.len() / 2, "  x = 1".to_owned());
        lines
    })
}

/// Generates code like [`any_code`] with text in the first and last line, since Markdown drops blank lines around
/// indented code.
fn any_indented() -> impl Strategy<Value = Vec<String>> {
    any_code(0..5).prop_map(|mut lines| {
        lines.insert(0, "first:".to_owned());
        lines.push("  last".to_owned());
        // A line of spaces counts as blank there.
        lines.iter().map(|line| if line.trim().is_empty() { String::new() } else { line.clone() }).collect()
    })
}

fn any_url() -> impl Strategy<Value = String> {
    "https://example\\.org/([a-z_*]{0,6}(_[a-z]_|\\*[a-z]\\*|__[a-z]__|\\([a-z_]\\))[a-z/]{1,6}){1,3}"
}

fn any_node(lines: std::ops::Range<usize>) -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        2 => Just(Node::Paragraph),
        1 => any_url().prop_map(Node::Url),
        4 => (prop::sample::select(&LANGUAGES[..]), any_code(lines))
            .prop_map(|(language, lines)| Node::Code { language, lines }),
        1 => any_indented().prop_map(Node::Indented),
        1 => Just(Node::Table),
    ];
    leaf.prop_recursive(5, 24, 3, |inner| {
        let nodes = prop::collection::vec(inner, 1..4);
        prop_oneof![
            nodes.clone().prop_map(Node::Quote),
            (any::<bool>(), prop::collection::vec(nodes, 1..4))
                .prop_map(|(is_numbered, items)| Node::List { is_numbered, items }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn code_is_preserved_byte_for_byte(nodes in prop::collection::vec(any_node(0..6), 1..5)) {
        let document = Document::of(&nodes);
        for platform in Platform::ALL {
            document.check(platform)?;
        }
    }

    #[test]
    fn split_code_is_preserved_byte_for_byte(nodes in prop::collection::vec(any_node(60..400), 1..4)) {
        let document = Document::of(&nodes);
        for platform in Platform::ALL {
            document.check(platform)?;
        }
    }

    #[test]
    fn plain_text_preserves_lines_and_indentation(lines in prop::collection::vec(any_line(12), 1..400)) {
        let text = lines.join("\n");
        for platform in Platform::ALL {
            let messages = adapter(platform).render_text("", &text);
            let mut rest = text.as_str();
            for message in &messages {
                prop_assert!(length(platform, message) <= limit(platform));
                let shown = match platform {
                    Platform::Telegram => html::parse(message).expect("well-formed HTML"),
                    Platform::Slack => message.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"),
                    Platform::Discord => without_escapes(message),
                    _ => message.replace('\u{200b}', ""),
                };
                let at = rest.find(&shown);
                prop_assert!(at.is_some(), "{platform:?}: {shown:?} is not in {rest:?}");
                let (before, left) = rest.split_at(at.unwrap());
                prop_assert!(before.trim().is_empty(), "{platform:?}: {before:?} is missing");
                rest = &left[shown.len()..];
            }
            prop_assert!(rest.trim().is_empty(), "{platform:?}: {rest:?} is missing");
        }
    }
}

/// Removes the backslashes that Discord does not show: those before punctuation outside URLs.
fn without_escapes(message: &str) -> String {
    let mut text = String::new();
    let mut rest = message;
    while let Some(character) = rest.chars().next() {
        let is_url = rest.starts_with("https://") || rest.starts_with("http://");
        let length = match rest.strip_prefix('\\') {
            _ if is_url => {
                rest.find("\\<").into_iter().chain(rest.find(char::is_whitespace)).min().unwrap_or(rest.len())
            }
            Some(escaped) if escaped.starts_with(|next: char| next.is_ascii_punctuation()) => {
                rest = escaped;
                1
            }
            _ => character.len_utf8(),
        };
        text.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    text
}

#[test]
fn code_in_items_and_quotes_is_unindented() {
    let markdown = "1. One:\n\n   ```python\n   def f():\n       return 1\n\n   f()\n   ```\n\n   More.\n2. Two\n   \
                    - a\n     > q\n     > ```\n     >  y\n     > ```\n     > r\n   - b";
    let expected = "1. One:\n```\ndef f():\n    return 1\n\nf()\n```\n   More.\n2. Two\n  • a\n    > q\n```\n y\n```\n   \
                    > r\n • b";
    assert_eq!(adapter(Platform::Slack).render(markdown), [expected]);
}

#[test]
fn split_code_block_keeps_its_language() {
    let lines = "    value: &x <1>\n".repeat(400);
    let (blocks, _) =
        render(Platform::Telegram, &format!("- a\n\n  ```yaml\n{}  ```", lines.replace("    v", "      v")));
    assert!(blocks.len() > 1 && blocks.iter().all(|block| block.language == "yaml"), "{}", blocks.len());
    let whole: Vec<&str> = blocks.iter().map(|block| block.text.as_str()).collect();
    assert_eq!(format!("{}\n", whole.join("\n")), lines);
}

#[test]
fn code_is_rendered_at_any_depth() {
    let depth = 40;
    let code = format!("{}```\n{}  x\n{}```", "> ".repeat(depth), "> ".repeat(depth), "> ".repeat(depth));
    for platform in Platform::ALL {
        let (blocks, _) = render(platform, &code);
        assert_eq!(blocks.iter().map(|block| block.text.as_str()).collect::<Vec<_>>(), ["  x"], "{platform:?}");
    }
}
