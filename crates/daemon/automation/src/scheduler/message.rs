//! The message about the end of a run, in the format that its job asks for. An output is Markdown.

use agentd_chat_platforms::protect_bare_urls;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};
use serde_json::json;

use super::model::run::{Outcome, cut};
use super::model::{DeliveryRule, Job, Run, RunId, RunStatus};
use crate::notify::{BODY_LIMIT, MessageFormat, Notification, Target};

/// Of an output that is sent as JSON, where each byte may become six.
const JSON_OUTPUT_BYTES: usize = 40_000;
/// Of an output that is sent as a page, where each byte may become six, too.
const HTML_OUTPUT_BYTES: usize = 40_000;

/// The message about the end of a run; `None`: nobody is to be told.
pub(super) fn notification(job: &Job, run: &Run, rule: &DeliveryRule, outcome: &Outcome) -> Option<Notification> {
    let is_success = match outcome.status {
        RunStatus::Success => true,
        RunStatus::Failed | RunStatus::Timeout => false,
        RunStatus::Pending | RunStatus::Running | RunStatus::Cancelled | RunStatus::Skipped => return None,
    };
    // It was checked when it was saved.
    let target: Target = rule.channel.parse().ok()?;
    let subject = if is_success { job.name.clone() } else { format!("{} failed", job.name) };
    let text = match (is_success, &outcome.output, &outcome.error) {
        (true, Some(output), _) => output.clone(),
        (true, None, _) => "The job is done; it had nothing to say.".to_owned(),
        (false, _, Some(error)) => format!("The job \"{}\" failed: {error}", job.name),
        (false, _, None) => format!("The job \"{}\" failed.", job.name),
    };
    let body = match rule.format {
        MessageFormat::Markdown => text,
        // What a failure says is no Markdown.
        MessageFormat::Text if is_success => as_text(&text),
        MessageFormat::Text => text,
        MessageFormat::Html => as_page(&text, is_success),
        MessageFormat::Json => json!({
            "job_id": job.id,
            "job": job.name,
            "run_id": run.id,
            "status": outcome.status,
            "scheduled_for": run.scheduled_for,
            "output": outcome.output.as_deref().map(|output| cut(output, JSON_OUTPUT_BYTES)),
            "error": outcome.error,
        })
        .to_string(),
    };
    let message = Notification::new(target, subject, body).format(rule.format);
    Some(message.idempotency_key(key(&run.id)).agent(run.agent_id.as_str()))
}

/// What the message about the end of a run is found by.
pub(super) fn key(run: &RunId) -> String {
    format!("run:{run}")
}

/// What was said as a page: of an output that would be too large, its beginning, as it is.
fn as_page(text: &str, is_markdown: bool) -> String {
    if !is_markdown {
        return plain_as_html(text);
    }
    let page = as_html(text);
    if page.len() <= BODY_LIMIT { page } else { plain_as_html(&cut(text, HTML_OUTPUT_BYTES)) }
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS)
}

/// Markdown as a page. Tags in the text are shown and not obeyed, links lead to the web or to a mailbox, and
/// pictures are links: whoever opens a message must not be seen doing so.
fn as_html(text: &str) -> String {
    let text = protect_bare_urls(text);
    let events = parser(&text).map(|event| match event {
        Event::Html(tag) | Event::InlineHtml(tag) => Event::Text(tag),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::SoftBreak => Event::HardBreak,
        Event::Start(Tag::Link { link_type, dest_url, title, id } | Tag::Image { link_type, dest_url, title, id }) => {
            let dest_url = if leads_outside(&dest_url) { dest_url } else { "".into() };
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

fn leads_outside(url: &str) -> bool {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| ["http", "https", "mailto"].contains(&scheme.as_str()))
}

/// Text as a page that shows it as it is.
fn plain_as_html(text: &str) -> String {
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

/// Markdown without its marks. The address of a link stands behind its label, and code keeps its bytes.
fn as_text(text: &str) -> String {
    let text = protect_bare_urls(text);
    let mut plain = Plain::default();
    for event in parser(&text) {
        plain.take(event);
    }
    plain.text.trim_end_matches('\n').to_owned()
}

#[derive(Default)]
struct Plain {
    text: String,
    /// Of each list that is open, the next number; `None` where it has none.
    lists: Vec<Option<u64>>,
    /// Of each link that is open, where its words begin, and its url.
    links: Vec<(usize, String)>,
}

impl Plain {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.text.push_str(&text);
            }
            Event::SoftBreak | Event::HardBreak => self.text.push('\n'),
            Event::Rule => {
                self.apart(2);
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
            // The first paragraph of an item stands behind its mark.
            Tag::Paragraph if self.lists.is_empty() => self.apart(2),
            Tag::Paragraph => {}
            Tag::Heading { .. } | Tag::CodeBlock(_) | Tag::HtmlBlock | Tag::Table(_) | Tag::BlockQuote(_) => {
                self.apart(2);
            }
            Tag::List(first) => {
                self.apart(if self.lists.is_empty() { 2 } else { 1 });
                self.lists.push(first);
            }
            Tag::Item => {
                self.apart(1);
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
            Tag::TableRow => self.apart(1),
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
            TagEnd::Paragraph if !self.lists.is_empty() => self.apart(1),
            TagEnd::Link | TagEnd::Image => {
                let Some((start, url)) = self.links.pop() else { return };
                if !url.is_empty() && self.text.get(start..).is_some_and(|words| words.trim() != url) {
                    self.text.push_str(&format!(" ({url})"));
                }
            }
            _ => {}
        }
    }

    /// So many ends of a line stand at the end of what there is.
    fn apart(&mut self, lines: usize) {
        if self.text.is_empty() {
            return;
        }
        let there = self.text.bytes().rev().take_while(|byte| *byte == b'\n').count();
        for _ in there..lines {
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
    fn a_page_has_the_markdowns_shape() {
        let page = as_html(REPORT);
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
        assert_eq!(as_html("one\ntwo"), "<p>one<br />\ntwo</p>");
    }

    #[test]
    fn a_page_obeys_nothing_that_stands_in_the_text() {
        let page = as_html(
            "<script>alert(1)</script>\n\na <b onclick=x>b</b> [c](javascript:alert(1)) ![d](https://example.org/d.png)",
        );
        for part in ["<script", "<b ", "javascript:", "<img"] {
            assert!(!page.contains(part), "{part} in {page}");
        }
        assert!(page.contains("&lt;script&gt;") && page.contains("<a href=\"https://example.org/d.png\">d</a>"));
    }

    #[test]
    fn text_has_no_signs() {
        let expected = "Report\n\ndone: ok & fine\nsee here (https://example.org/a)\n\n\
            1. one\n2. two\n  - inner code\n\na | b\n1 | 2\n\nlet x = *y;";
        assert_eq!(as_text(REPORT), expected);
        assert_eq!(as_text("2 * 3 * 4 <b>"), "2 * 3 * 4 <b>");
        assert_eq!(as_text("<https://example.org>"), "https://example.org");
        assert_eq!(as_text("see https://example.org/__a__/_b_."), "see https://example.org/__a__/_b_.");
    }

    #[test]
    fn code_below_items_and_in_quotes_keeps_its_bytes() {
        let text = as_text(
            "1. a\n\n   ```python\n   def f():\n       return 1\n\n   f()  \n   ```\n   b\n\n> ```\n>  -x\n> + y  \n> ```",
        );
        assert_eq!(text, "1. a\n\ndef f():\n    return 1\n\nf()  \nb\n\n -x\n+ y  ");
    }

    proptest! {
        #[test]
        fn code_below_items_at_any_depth_keeps_its_bytes(
            lines in prop::collection::vec("( {0,8}|\t)[-+*_#>a-z`~]{0,2}[a-z =:]{0,8}", 1..8), depth in 0_usize..8
        ) {
            let code = format!("{}\nend", lines.join("\n"));
            let indentation = "  ".repeat(depth);
            let inner = code.replace('\n', &format!("\n{indentation}"));
            let text = as_text(&format!("{}```x\n{indentation}{inner}\n{indentation}```\n", "- ".repeat(depth)));
            prop_assert!(text.ends_with(&code), "{text:?}");
        }

        #[test]
        fn no_text_makes_it_panic_or_lets_a_script_through(text in "[<>a-z/ \\n*_`#\\[\\]()!|:-]{0,120}") {
            prop_assert!(!as_html(&text).contains("<script"));
            as_text(&text);
        }
    }
}
