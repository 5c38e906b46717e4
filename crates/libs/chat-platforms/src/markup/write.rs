//! Conversion of Markdown to blocks, and of blocks to text.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, LinkType, Parser, Tag, TagEnd, TextMergeStream};

use super::Style;
use super::bare_urls::{OPTIONS, protect_bare_urls};
use super::split::{Block, Content, Written, pack};

/// Maximum list depth that is shown; deeper lists have this indentation.
const MAX_INDENT: usize = 6;
/// Maximum nesting of containers and emphasis with markup. Deeper ones are written without, since text is copied once
/// per level.
const MAX_DEPTH: usize = 24;
/// Maximum width of aligned table columns, so that one long cell does not widen every row.
const MAX_COLUMN_WIDTH: usize = 60;
/// Maximum leading spaces of a line outside a list; more would start a code block in Markdown.
const MAX_INDENT_AFTER_CODE: usize = 3;

/// Open element that collects text.
enum Open {
    Paragraph,
    Strong,
    Emphasis,
    Strikethrough,
    Link(String),
    /// URL that is its own label.
    Autolink(String),
    Heading(u8),
    Quote,
    Item(Item),
    /// Plain text with its language.
    Code(String),
    Cell,
    /// Element without markup.
    Plain,
}

/// List item.
struct Item {
    depth: usize,
    /// Number or bullet with the following space.
    marker: String,
    /// Whether its first part has been written and was followed by code.
    is_continued: bool,
}

struct Frame {
    open: Open,
    text: Written,
    /// Finished lines of a quote or item.
    lines: Vec<Written>,
}

struct List {
    next: Option<u64>,
}

struct Writer<'s> {
    style: &'s Style,
    frames: Vec<Frame>,
    /// Number of open elements beyond [`MAX_DEPTH`].
    too_deep: usize,
    lists: Vec<List>,
    /// Number of outermost lists so far.
    list_count: usize,
    table: Vec<Vec<String>>,
    blocks: Vec<Block>,
}

/// Renders `markdown` as messages; empty for blank input.
pub(crate) fn render(markdown: &str, style: &Style) -> Vec<String> {
    let (frames, lists, table, blocks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut writer = Writer { style, frames, too_deep: 0, lists, list_count: 0, table, blocks };
    let markdown = protect_bare_urls(markdown);
    // Merged text events, since escaping depends on adjacent characters.
    for event in TextMergeStream::new(Parser::new_ext(&markdown, OPTIONS)) {
        writer.handle(event);
    }
    while !writer.frames.is_empty() {
        writer.close();
    }
    pack(&writer.blocks, style)
}

/// Renders plain text below a bold title; either may be empty.
pub(crate) fn render_text(title: &str, text: &str, style: &Style) -> Vec<String> {
    let title = Written::escaped(title.trim(), style);
    let title = Written { markup: (style.strong)(&title.markup), ..title };
    let blocks = [title, Written::escaped(text, style)].into_iter().filter(|text| !text.is_blank());
    let blocks: Vec<Block> = blocks.map(|text| Block { content: Content::Text(text), list: None }).collect();
    pack(&blocks, style)
}

fn level(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

impl Writer<'_> {
    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            // HTML is treated as literal text.
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.push(Written::escaped(&text, self.style)),
            Event::Code(text) => self.push(Written { markup: (self.style.code)(&text), plain: text.to_string() }),
            Event::SoftBreak | Event::HardBreak => self.push(Written::same("\n")),
            Event::Rule => self.add_text(Written::same("———")),
            Event::TaskListMarker(done) => self.push(Written::same(if done { "☑ " } else { "☐ " })),
        }
    }

    fn push(&mut self, text: Written) {
        if self.frames.is_empty() {
            self.open(Open::Paragraph);
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.text.push(&text);
        }
    }

    fn open(&mut self, open: Open) {
        self.frames.push(Frame { open, text: Written::default(), lines: Vec::new() });
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            // A code block leaves its containers, so the depth limit does not apply.
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.split_whitespace().next().unwrap_or_default().to_owned(),
                    CodeBlockKind::Indented => String::new(),
                };
                return self.open(Open::Code(language));
            }
            Tag::Table(_) => return self.table.clear(),
            Tag::TableHead | Tag::TableRow => return self.table.push(Vec::new()),
            Tag::TableCell => return self.open(Open::Cell),
            _ if self.frames.len() >= MAX_DEPTH => {
                self.too_deep += 1;
                return;
            }
            _ => {}
        }
        match tag {
            Tag::Strong => self.open(Open::Strong),
            Tag::Emphasis => self.open(Open::Emphasis),
            Tag::Strikethrough => self.open(Open::Strikethrough),
            Tag::Link { link_type: LinkType::Autolink, dest_url, .. } => {
                self.open(Open::Autolink(dest_url.to_string()))
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.open(Open::Link(dest_url.to_string())),
            Tag::Heading { level: of, .. } => self.open(Open::Heading(level(of))),
            Tag::BlockQuote(_) => self.open(Open::Quote),
            Tag::List(first) => {
                self.finish_line();
                self.list_count += usize::from(self.lists.is_empty());
                self.lists.push(List { next: first });
            }
            Tag::Item => {
                let item = self.next_item();
                self.open(Open::Item(item));
            }
            Tag::Paragraph => self.open(Open::Paragraph),
            _ => self.open(Open::Plain),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::CodeBlock | TagEnd::TableCell => self.close(),
            TagEnd::TableHead | TagEnd::TableRow => {}
            TagEnd::Table => self.end_table(),
            // Elements end in reverse order.
            _ if self.too_deep > 0 => self.too_deep -= 1,
            TagEnd::List(_) => {
                self.lists.pop();
            }
            _ => self.close(),
        }
    }

    /// Ends the innermost element and passes its text to the enclosing one.
    fn close(&mut self) {
        let Some(Frame { open, text, mut lines }) = self.frames.pop() else { return };
        let style = self.style;
        match open {
            Open::Strong => self.push_unless_empty(text, style.strong),
            Open::Emphasis => self.push_unless_empty(text, style.emphasis),
            Open::Strikethrough => self.push_unless_empty(text, style.strikethrough),
            Open::Plain => self.push_unless_empty(text, str::to_owned),
            Open::Link(url) => self.push(link(text, &url, style)),
            Open::Autolink(url) => self.push(link(Written::escaped(&url, style), &url, style)),
            Open::Cell => {
                if let Some(row) = self.table.last_mut() {
                    row.push(text.plain.replace('\n', " "));
                }
            }
            Open::Paragraph => self.add_text(text),
            Open::Heading(level) => {
                let markup = (style.heading)(&text.markup, level);
                self.add_text(Written { markup, ..text });
            }
            Open::Code(language) => {
                let text = text.plain.strip_suffix('\n').unwrap_or(&text.plain).to_owned();
                self.add_code(language, text);
            }
            Open::Quote => {
                lines.push(text);
                self.add_text(quoted(&lines, style));
            }
            Open::Item(item) => {
                lines.push(text);
                self.add_text(item.write(&lines));
            }
        }
    }

    fn push_unless_empty(&mut self, text: Written, write: fn(&str) -> String) {
        if !text.plain.is_empty() {
            self.push(Written { markup: write(&text.markup), ..text });
        }
    }

    fn next_item(&mut self) -> Item {
        let depth = self.lists.len().saturating_sub(1).min(MAX_INDENT);
        let marker = match self.lists.last_mut().and_then(|list| list.next.as_mut()) {
            Some(number) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            None => self.style.bullet.to_owned(),
        };
        Item { depth, marker, is_continued: false }
    }

    /// Finishes the current line of an item or quote.
    fn finish_line(&mut self) {
        if let Some(frame) = self.frames.last_mut()
            && matches!(frame.open, Open::Item(_) | Open::Quote)
        {
            frame.lines.push(std::mem::take(&mut frame.text));
        }
    }

    fn add_text(&mut self, text: Written) {
        self.finish_line();
        match self.frames.last_mut() {
            Some(frame) => frame.lines.push(text),
            None => self.add_block(Content::Text(text)),
        }
    }

    /// Adds a code block outside of quotes and items, so that its lines have no marks or indentation. Text of these
    /// containers before it is written first, the remainder after it.
    fn add_code(&mut self, language: String, text: String) {
        if text.trim().is_empty() {
            return;
        }
        let style = self.style;
        let mut before = Written::default();
        for frame in self.frames.iter_mut().rev() {
            let mut lines = std::mem::take(&mut frame.lines);
            lines.extend([std::mem::take(&mut frame.text), before]);
            before = match &mut frame.open {
                Open::Quote => quoted(&lines, style),
                Open::Item(item) => {
                    let written = item.write(&lines);
                    item.is_continued = true;
                    written
                }
                _ => Written::join(&lines, "\n"),
            };
        }
        self.add_block(Content::Text(before));
        self.add_block(Content::Code { language, text });
    }

    fn add_block(&mut self, mut content: Content) {
        let list = (!self.lists.is_empty()).then_some(self.list_count);
        if let Content::Text(text) = &mut content {
            if text.is_blank() {
                return;
            }
            if self.blocks.last().is_some_and(|last| matches!(last.content, Content::Code { .. })) {
                *text = reduce_indent(text);
            }
        }
        self.blocks.push(Block { content, list });
    }

    /// Writes a table as code with aligned columns, since platforms lack tables.
    fn end_table(&mut self) {
        let rows = std::mem::take(&mut self.table);
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default().min(MAX_COLUMN_WIDTH)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let lines = rows.iter().map(|row| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        self.add_code(String::new(), text);
    }
}

fn link(label: Written, url: &str, style: &Style) -> Written {
    let label = if label.plain.trim().is_empty() { Written::escaped(url, style) } else { label };
    let plain = if label.plain == url { url.to_owned() } else { format!("{} ({url})", label.plain) };
    Written { markup: (style.link)(&label.markup, url), plain }
}

fn quoted(lines: &[Written], style: &Style) -> Written {
    let text = Written::join(lines, "\n\n");
    if text.is_blank() { text } else { Written { markup: (style.quote)(&text.markup), ..text } }
}

impl Item {
    fn write(&self, lines: &[Written]) -> Written {
        let text = Written::join(lines, "\n");
        if self.is_continued && text.is_blank() {
            return Written::default();
        }
        text.map(|text| self.indented(text))
    }

    /// Indents continuation lines below the text of the first; those of nested lists are already indented.
    fn indented(&self, text: &str) -> String {
        let rest = " ".repeat(self.depth * 2 + self.marker.chars().count());
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let mut item = match self.is_continued {
            false => format!("{}{}{first}", " ".repeat(self.depth * 2), self.marker).trim_end().to_owned(),
            true if first.starts_with(' ') => first.to_owned(),
            true => format!("{rest}{first}"),
        };
        for line in lines {
            item.push('\n');
            if !line.starts_with(' ') {
                item.push_str(&rest);
            }
            item.push_str(line);
        }
        item
    }
}

/// Removes indentation from text after code that interrupted a list.
fn reduce_indent(text: &Written) -> Written {
    let spaces = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let removed = text.plain.lines().next().map_or(0, spaces).saturating_sub(MAX_INDENT_AFTER_CODE);
    let outdent = |line: &str| line.get(spaces(line).min(removed)..).unwrap_or_default().to_owned();
    text.map(|text| text.split('\n').map(outdent).collect::<Vec<_>>().join("\n"))
}
