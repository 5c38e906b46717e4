//! Markdown to blocks, and blocks to text.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd, TextMergeStream};

use super::Style;
use super::split::{Block, Written, pack};

/// Deeper lists are written as if they were so deep.
const MAX_INDENT: usize = 6;
/// What is opened deeper counts only by its text: everything that is open is written once for each that it stands in.
const MAX_DEPTH: usize = 24;
/// Columns of tables are in line up to so many characters: with one long cell every row would be as long.
const MAX_COLUMN: usize = 60;

/// What is open and collects text.
enum Open {
    Paragraph,
    Strong,
    Emphasis,
    Strikethrough,
    Link(String),
    Heading(u8),
    Quote,
    Item,
    /// Plain text in a language.
    Code(String),
    Cell,
    /// Something whose text counts and that looks like nothing.
    Plain,
}

struct Frame {
    open: Open,
    text: Written,
    /// Of a quote or an item: what is finished in it.
    lines: Vec<Written>,
}

struct List {
    next: Option<u64>,
}

struct Writer<'s> {
    style: &'s Style,
    frames: Vec<Frame>,
    /// How many are open beyond [`MAX_DEPTH`].
    too_deep: usize,
    lists: Vec<List>,
    table: Vec<Vec<String>>,
    blocks: Vec<Block>,
}

/// Parts of `markdown`; none for what is empty.
pub(crate) fn render(markdown: &str, style: &Style) -> Vec<String> {
    let (frames, lists, table, blocks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut writer = Writer { style, frames, too_deep: 0, lists, table, blocks };
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
    // In whole pieces of text: what is escaped depends on what stands beside it.
    for event in TextMergeStream::new(Parser::new_ext(markdown, options)) {
        writer.take(event);
    }
    while !writer.frames.is_empty() {
        writer.close();
    }
    pack(&writer.blocks, style)
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
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            // What looks like HTML is what somebody wrote, and no more.
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.push(Written::escaped(&text, self.style)),
            Event::Code(text) => self.push(Written { markup: (self.style.code)(&text), plain: text.to_string() }),
            Event::SoftBreak | Event::HardBreak => self.push(Written::same("\n")),
            Event::Rule => self.add_block(Block::Text(Written::same("———"))),
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
        if self.frames.len() >= MAX_DEPTH {
            self.too_deep += 1;
            return;
        }
        match tag {
            Tag::Strong => self.open(Open::Strong),
            Tag::Emphasis => self.open(Open::Emphasis),
            Tag::Strikethrough => self.open(Open::Strikethrough),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.open(Open::Link(dest_url.to_string())),
            Tag::Heading { level: of, .. } => self.open(Open::Heading(level(of))),
            Tag::BlockQuote(_) => self.open(Open::Quote),
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.split_whitespace().next().unwrap_or_default().to_owned(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.open(Open::Code(language));
            }
            Tag::List(first) => {
                self.finish_line();
                self.lists.push(List { next: first });
            }
            Tag::Item => self.open(Open::Item),
            Tag::Table(_) => self.table.clear(),
            Tag::TableHead | Tag::TableRow => self.table.push(Vec::new()),
            Tag::TableCell => self.open(Open::Cell),
            Tag::Paragraph => self.open(Open::Paragraph),
            _ => self.open(Open::Plain),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        // What was opened last ends first.
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return;
        }
        match tag {
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::TableHead | TagEnd::TableRow => {}
            TagEnd::Table => self.end_table(),
            _ => self.close(),
        }
    }

    /// Ends what is open last, and hands it to what it stands in.
    fn close(&mut self) {
        let Some(Frame { open, text, mut lines }) = self.frames.pop() else { return };
        let style = self.style;
        match open {
            Open::Strong => self.push_unless_empty(text, style.strong),
            Open::Emphasis => self.push_unless_empty(text, style.emphasis),
            Open::Strikethrough => self.push_unless_empty(text, style.strikethrough),
            Open::Plain => self.push_unless_empty(text, str::to_owned),
            Open::Link(url) => self.push(link(text, &url, style)),
            Open::Cell => {
                if let Some(row) = self.table.last_mut() {
                    row.push(text.plain.replace('\n', " "));
                }
            }
            Open::Paragraph => self.add_block(Block::Text(text)),
            Open::Heading(level) => {
                let markup = (style.heading)(&text.markup, level);
                self.add_block(Block::Text(Written { markup, ..text }));
            }
            Open::Code(language) => {
                let text = text.plain.trim_end_matches('\n').to_owned();
                self.add_block(Block::Code { language, text });
            }
            Open::Quote => {
                lines.push(text);
                let text = Written::join(&lines, "\n\n");
                self.add_block(Block::Text(Written { markup: (style.quote)(&text.markup), ..text }));
            }
            Open::Item => {
                lines.push(text);
                self.end_item(&Written::join(&lines, "\n"));
            }
        }
    }

    fn push_unless_empty(&mut self, text: Written, write: fn(&str) -> String) {
        if !text.plain.is_empty() {
            self.push(Written { markup: write(&text.markup), ..text });
        }
    }

    fn end_item(&mut self, text: &Written) {
        let depth = self.lists.len().saturating_sub(1).min(MAX_INDENT);
        let sign = match self.lists.last_mut().and_then(|list| list.next.as_mut()) {
            Some(number) => {
                let sign = format!("{number}. ");
                *number = number.saturating_add(1);
                sign
            }
            None => self.style.bullet.to_owned(),
        };
        let item = Written { markup: indented(&text.markup, depth, &sign), plain: indented(&text.plain, depth, &sign) };
        match self.frames.last_mut() {
            // The list stands in an item or a quote.
            Some(frame) => frame.lines.push(item),
            None => self.blocks.push(Block::Item(item)),
        }
    }

    /// Puts what was written of an item or a quote so far in a line of its own.
    fn finish_line(&mut self) {
        if let Some(frame) = self.frames.last_mut()
            && matches!(frame.open, Open::Item | Open::Quote)
        {
            frame.lines.push(std::mem::take(&mut frame.text));
        }
    }

    fn add_block(&mut self, block: Block) {
        self.finish_line();
        let style = self.style;
        match self.frames.last_mut() {
            Some(frame) => frame.lines.push(block.write(style)),
            None if block.is_empty() => {}
            None => self.blocks.push(block),
        }
    }

    /// A table is code with its columns in line: platforms have none.
    fn end_table(&mut self) {
        let rows = std::mem::take(&mut self.table);
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default().min(MAX_COLUMN)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let lines = rows.iter().map(|row| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        self.add_block(Block::Code { language: String::new(), text });
    }
}

fn link(label: Written, url: &str, style: &Style) -> Written {
    let label = if label.plain.trim().is_empty() { Written::escaped(url, style) } else { label };
    let plain = if label.plain == url { url.to_owned() } else { format!("{} ({url})", label.plain) };
    Written { markup: (style.link)(&label.markup, url), plain }
}

/// Lines that follow the first one stand below its text; those of inner lists are indented already.
fn indented(text: &str, depth: usize, sign: &str) -> String {
    let rest = " ".repeat(depth * 2 + sign.chars().count());
    let mut item = format!("{}{sign}", " ".repeat(depth * 2));
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            item.push('\n');
            if !line.starts_with(' ') {
                item.push_str(&rest);
            }
        }
        item.push_str(line);
    }
    item
}
