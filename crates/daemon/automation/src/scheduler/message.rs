//! Messages about completed runs, in the format configured by the job. Outputs are Markdown.

use agentd_chat_platforms::protect_bare_urls;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};
use serde_json::json;

use super::model::run::{Outcome, truncate};
use super::model::{DeliveryRule, Job, Run, RunId, RunStatus};
use crate::notify::{MAX_BODY_BYTES, MessageFormat, Notification, Target};

/// Maximum size of an output sent as JSON, in bytes. Escaping may expand each byte to six.
const MAX_JSON_OUTPUT_BYTES: usize = 40_000;
/// Maximum size of an output sent as plain HTML, in bytes. Escaping may expand each byte to six.
const MAX_HTML_OUTPUT_BYTES: usize = 40_000;

/// Builds the message about a completed run. Returns `None` if the outcome is not reported.
pub(super) fn notification(job: &Job, run: &Run, rule: &DeliveryRule, outcome: &Outcome) -> Option<Notification> {
    let is_success = match outcome.status {
        RunStatus::Success => true,
        RunStatus::Failed | RunStatus::Timeout => false,
        RunStatus::Pending | RunStatus::Running | RunStatus::Cancelled | RunStatus::Skipped => return None,
    };
    // Validated when the job was saved.
    let target: Target = rule.channel.parse().ok()?;
    let subject = if is_success { job.name.clone() } else { format!("{} failed", job.name) };
    let text = match (is_success, &outcome.output, &outcome.error) {
        (true, Some(output), _) => output.clone(),
        (true, None, _) => "The job completed without output.".to_owned(),
        (false, _, Some(error)) => format!("The job \"{}\" failed: {error}", job.name),
        (false, _, None) => format!("The job \"{}\" failed.", job.name),
    };
    let body = match rule.format {
        MessageFormat::Markdown => text,
        // Error texts are not Markdown.
        MessageFormat::Text if is_success => markdown_to_text(&text),
        MessageFormat::Text => text,
        MessageFormat::Html => render_page(&text, is_success),
        MessageFormat::Json => json!({
            "job_id": job.id,
            "job": job.name,
            "run_id": run.id,
            "status": outcome.status,
            "scheduled_for": run.scheduled_for,
            "output": outcome.output.as_deref().map(|output| truncate(output, MAX_JSON_OUTPUT_BYTES)),
            "error": outcome.error,
        })
        .to_string(),
    };
    let message = Notification::new(target, subject, body).format(rule.format);
    Some(message.idempotency_key(key(&run.id)).agent(run.agent_id.as_str()))
}

/// Returns the idempotency key of the message about a run.
pub(super) fn key(run: &RunId) -> String {
    format!("run:{run}")
}

/// Renders a text as HTML. An output that would be too large is truncated and shown unformatted.
fn render_page(text: &str, is_markdown: bool) -> String {
    if !is_markdown {
        return text_to_html(text);
    }
    let page = markdown_to_html(text);
    if page.len() <= MAX_BODY_BYTES { page } else { text_to_html(&truncate(text, MAX_HTML_OUTPUT_BYTES)) }
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS)
}

/// Renders Markdown as HTML. HTML tags are escaped, and links are limited to web and mail addresses. Images become
/// links, so that opening a message sends no request.
fn markdown_to_html(text: &str) -> String {
    let text = protect_bare_urls(text);
    let events = parser(&text).map(|event| match event {
        Event::Html(tag) | Event::InlineHtml(tag) => Event::Text(tag),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::SoftBreak => Event::HardBreak,
        Event::Start(Tag::Link { link_type, dest_url, title, id } | Tag::Image { link_type, dest_url, title, id }) => {
            let dest_url = if is_external_link(&dest_url) { dest_url } else { "".into() };
            Event::Start(Tag::Link { link_type, dest_url, title, id })
        }
        Event::End(TagEnd::Image) => Event::End(TagEnd::Link),
        other => other,
    });
    let mut page = String::with_capacity(text.len() * 3 / 2);
    html::push_html(&mut page, events);
    page.truncate(page.trim_end().len());
    page
}

fn is_external_link(url: &str) -> bool {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| ["http", "https", "mailto"].contains(&scheme.as_str()))
}

/// Renders plain text as HTML.
fn text_to_html(text: &str) -> String {
    let mut page = String::with_capacity(text.len() + 32);
    page.push_str("<p>");
    for character in text.chars() {
        match character {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\n' => page.push_str("<br>\n"),
            other => page.push(other),
        }
    }
    page.push_str("</p>");
    page
}

/// Renders Markdown as plain text. The URL of a link follows its label, and code is preserved byte for byte.
fn markdown_to_text(text: &str) -> String {
    let text = protect_bare_urls(text);
    let mut plain = PlainText::default();
    for event in parser(&text) {
        plain.handle(event);
    }
    plain.text.trim_end_matches('\n').to_owned()
}

#[derive(Default)]
struct PlainText {
    text: String,
    /// Next number of each open list; `None` for a bulleted list.
    lists: Vec<Option<u64>>,
    /// Start offset of the label and URL of each open link.
    links: Vec<(usize, String)>,
}

impl PlainText {
    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.text.push_str(&text);
            }
            Event::SoftBreak | Event::HardBreak => self.text.push('\n'),
            Event::Rule => {
                self.break_lines(2);
                self.text.push_str("---");
            }
            Event::TaskListMarker(is_done) => self.text.push_str(if is_done { "[x] " } else { "[ ] " }),
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            // The first paragraph of an item follows its marker on the same line.
            Tag::Paragraph if self.lists.is_empty() => self.break_lines(2),
            Tag::Paragraph => {}
            Tag::Heading { .. } | Tag::CodeBlock(_) | Tag::HtmlBlock | Tag::Table(_) | Tag::BlockQuote(_) => {
                self.break_lines(2);
            }
            Tag::List(first) => {
                self.break_lines(if self.lists.is_empty() { 2 } else { 1 });
                self.lists.push(first);
            }
            Tag::Item => {
                self.break_lines(1);
                let indent = "  ".repeat(self.lists.len().saturating_sub(1).min(20));
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "- ".to_owned(),
                };
                self.text.push_str(&indent);
                self.text.push_str(&mark);
            }
            Tag::TableRow => self.break_lines(1),
            Tag::TableCell if !self.text.is_empty() && !self.text.ends_with('\n') => self.text.push_str(" | "),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((self.text.len(), dest_url.into_string()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Paragraph if !self.lists.is_empty() => self.break_lines(1),
            TagEnd::Link | TagEnd::Image => {
                let Some((start, url)) = self.links.pop() else { return };
                if !url.is_empty() && self.text.get(start..).is_some_and(|words| words.trim() != url) {
                    self.text.push_str(&format!(" ({url})"));
                }
            }
            _ => {}
        }
    }

    /// Ensures that non-empty text ends with at least this number of line breaks.
    fn break_lines(&mut self, lines: usize) {
        if self.text.is_empty() {
            return;
        }
        let present = self.text.bytes().rev().take_while(|byte| *byte == b'\n').count();
        for _ in present..lines {
            self.text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REPORT: &str = "# Report\n\ndone: **ok** & _fine_\nsee [here](https://example.org/a)\n\n\
        1. one\n2. two\n   - inner `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nlet x = *y;\n```\n";

    #[test]
    fn html_preserves_markdown_structure() {
        let page = markdown_to_html(REPORT);
        for part in [
            "<h1>Report</h1>",
            "<strong>ok</strong> &amp; <em>fine</em>",
            "<a href=\"https://example.org/a\">here</a>",
            "<li>two",
            "<td>1</td>",
            "let x = *y;",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert_eq!(markdown_to_html("one\ntwo"), "<p>one<br />\ntwo</p>");
    }

    #[test]
    fn html_escapes_tags_and_unsafe_links() {
        let page = markdown_to_html(
            "<script>alert(1)</script>\n\na <b onclick=x>b</b> [c](javascript:alert(1)) ![d](https://example.org/d.png)",
        );
        for part in ["<script", "<b ", "javascript:", "<img"] {
            assert!(!page.contains(part), "{part} in {page}");
        }
        assert!(page.contains("&lt;script&gt;") && page.contains("<a href=\"https://example.org/d.png\">d</a>"));
    }

    #[test]
    fn plain_text_has_no_markdown_syntax() {
        let expected = "Report\n\ndone: ok & fine\nsee here (https://example.org/a)\n\n\
            1. one\n2. two\n  - inner code\n\na | b\n1 | 2\n\nlet x = *y;";
        assert_eq!(markdown_to_text(REPORT), expected);
        assert_eq!(markdown_to_text("2 * 3 * 4 <b>"), "2 * 3 * 4 <b>");
        assert_eq!(markdown_to_text("<https://example.org>"), "https://example.org");
        assert_eq!(markdown_to_text("see https://example.org/__a__/_b_."), "see https://example.org/__a__/_b_.");
    }

    #[test]
    fn code_in_lists_and_quotes_is_preserved() {
        let text = markdown_to_text(
            "1. a\n\n   ```python\n   def f():\n       return 1\n\n   f()  \n   ```\n   b\n\n> ```\n>  -x\n> + y  \n> ```",
        );
        assert_eq!(text, "1. a\n\ndef f():\n    return 1\n\nf()  \nb\n\n -x\n+ y  ");
    }

    proptest! {
        #[test]
        fn code_in_nested_lists_is_preserved(
            lines in prop::collection::vec("( {0,8}|\t)[-+*_#>a-z`~]{0,2}[a-z =:]{0,8}", 1..8), depth in 0_usize..8
        ) {
            let code = format!("{}\nend", lines.join("\n"));
            let indentation = "  ".repeat(depth);
            let inner = code.replace('\n', &format!("\n{indentation}"));
            let text = markdown_to_text(&format!("{}```x\n{indentation}{inner}\n{indentation}```\n", "- ".repeat(depth)));
            prop_assert!(text.ends_with(&code), "{text:?}");
        }

        #[test]
        fn rendering_never_panics_or_emits_scripts(text in "[<>a-z/ \\n*_`#\\[\\]()!|:-]{0,120}") {
            prop_assert!(!markdown_to_html(&text).contains("<script"));
            markdown_to_text(&text);
        }
    }
}
