//! Conversion of page tokens to blocks of text.

mod blocks;
mod links;
mod state;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};
use url::Url;

use links::MAX_LINK_CHARACTERS;
use state::{Reader, Row};

use crate::block::{Block, BlockKind, ParsedPage};
use crate::element::{Kind, Tag, fingerprint};
use crate::stack::OpenElement;
use crate::{chrome, inline};

const MAX_TITLE_CHARACTERS: usize = 300;

pub(crate) fn read(html: &str, base_url: &Url) -> ParsedPage {
    let mut reader = Reader::new(base_url);
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| {
        reader.event(event);
        // A returned value stops the tokenizer.
        reader.is_full.then_some(())
    });
    emitter.naively_switch_states(true);
    let Ok(_) = Tokenizer::new_with_emitter(html, emitter).next().transpose();
    reader.finish()
}

impl Reader {
    fn event(&mut self, event: CallbackEvent<'_>) {
        match event {
            CallbackEvent::OpenStartTag { name } => self.tag = Some(Tag::new(name)),
            CallbackEvent::AttributeName { name } => {
                if let Some(tag) = &mut self.tag {
                    tag.attribute(name);
                }
            }
            CallbackEvent::AttributeValue { value } => {
                if let Some(tag) = &mut self.tag {
                    tag.value(value);
                }
            }
            CallbackEvent::CloseStartTag { self_closing } => {
                if let Some(tag) = self.tag.take() {
                    self.start(&tag, self_closing);
                }
            }
            CallbackEvent::EndTag { name } => {
                self.tag = None;
                self.end(name);
            }
            CallbackEvent::String { value } => self.text(&String::from_utf8_lossy(value)),
            CallbackEvent::Comment { .. } | CallbackEvent::Doctype { .. } | CallbackEvent::Error(_) => {}
        }
    }

    fn is_skipping(&self) -> bool {
        self.stack.counts.skips > 0
    }

    fn start(&mut self, tag: &Tag, is_self_closing: bool) {
        let kind = tag.kind.unwrap_or(Kind::Inline);
        let remaining = self.stack.remaining_after_start(kind);
        self.close_to(remaining);
        if self.is_skipping() {
            if kind.has_end_tag() && !is_self_closing {
                self.stack.push(open(tag, kind));
            }
            return;
        }
        let is_closed_dialog = kind == Kind::Chrome && tag.name == fingerprint(b"dialog") && !tag.is_open;
        // The root may be hidden initially for a fade-in.
        if kind.has_end_tag() && (kind == Kind::Skip || is_closed_dialog || (tag.is_invisible() && !tag.is_root)) {
            if kind.is_block() {
                self.break_block(kind);
            }
            // Only SVG and MathML elements can be self-closing.
            if !(is_self_closing && kind == Kind::Skip) {
                self.stack.push(OpenElement { skips: true, ..open(tag, kind) });
            }
            return;
        }
        match kind {
            Kind::Skip | Kind::Void | Kind::Inline => {}
            Kind::Break if self.stack.counts.preformatted > 0 => self.flowing.push('\n'),
            Kind::Break => self.line_break(),
            Kind::Rule => self.break_block(kind),
            Kind::Image if !tag.is_invisible() => self.image(&tag.alt),
            Kind::Image => {}
            Kind::Meta => self.meta(tag),
            Kind::Base => self.base(tag),
            Kind::Title => self.in_title = self.title.is_empty(),
            Kind::Link => self.open_link(&tag.href),
            Kind::Code if self.stack.counts.preformatted == 0 => self.flowing.push('`'),
            Kind::Code => {}
            _ => self.start_block(tag, kind),
        }
    }

    fn start_block(&mut self, tag: &Tag, kind: Kind) {
        self.break_block(kind);
        let mut open = open(tag, kind);
        match kind {
            Kind::Item => self.marker = Some(self.next_marker(tag)),
            Kind::List { .. } => {
                self.marker = None;
                open.next_number = tag.start.trim().parse().unwrap_or(1);
            }
            Kind::Row => self.rows.push(Row::default()),
            Kind::Cell { is_header } => {
                if let Some(row) = self.rows.last_mut() {
                    row.is_header = is_header && (row.is_header || row.cells.is_empty());
                }
            }
            _ => {}
        }
        open.is_chrome = match kind {
            // A `header` inside the main content is part of it.
            Kind::Chrome => self.stack.counts.main == 0 || tag.name != fingerprint(b"header"),
            Kind::Main => false,
            _ => !tag.is_root && chrome::is_named(&tag.words),
        };
        self.stack.push(open);
    }

    fn next_marker(&mut self, tag: &Tag) -> String {
        let is_definition = !tag.is_term && tag.name == fingerprint(b"dd");
        match self.stack.list_mut() {
            _ if is_definition => String::new(),
            Some(list) if list.kind == (Kind::List { is_ordered: true }) => {
                let number = list.next_number;
                list.next_number = number.saturating_add(1);
                format!("{number}.")
            }
            _ => "-".to_owned(),
        }
    }

    fn end(&mut self, name: &[u8]) {
        let kind = Kind::of(name);
        if kind == Kind::Title {
            self.in_title = false;
        }
        if !self.is_skipping() {
            match kind {
                Kind::Link => self.close_link(),
                Kind::Code if self.stack.counts.preformatted == 0 => self.flowing.push('`'),
                // Browsers treat `</br>` as `<br>`.
                Kind::Break => self.line_break(),
                _ => {}
            }
        }
        let remaining = self.stack.remaining_after_end(name, kind);
        if remaining == self.stack.len() && kind.is_block() && !self.is_skipping() {
            self.break_block(kind);
        }
        self.close_to(remaining);
    }

    /// Closes the innermost elements until only `remaining` are open.
    fn close_to(&mut self, remaining: usize) {
        while self.stack.len() > remaining {
            let is_read = !self.is_skipping();
            let kind = self.stack.top().map_or(Kind::Inline, |open| open.kind);
            if is_read && kind.is_block() {
                if matches!(kind, Kind::Cell { .. }) { self.end_cell() } else { self.break_block(kind) }
            }
            self.stack.pop();
            if !is_read {
                continue;
            }
            match kind {
                Kind::Row => self.end_row(),
                Kind::Item | Kind::List { .. } => self.marker = None,
                _ => {}
            }
        }
    }

    fn text(&mut self, text: &str) {
        if self.in_title {
            self.title.push_str(&inline::one_line(text, MAX_TITLE_CHARACTERS));
        } else if self.is_skipping() {
        } else if self.stack.counts.preformatted > 0 {
            inline::verbatim(text, &mut self.flowing);
        } else {
            inline::flow(text, &mut self.flowing);
        }
    }

    fn image(&mut self, alt: &str) {
        let alt = inline::one_line(alt, MAX_LINK_CHARACTERS);
        if alt.len() > 2 {
            inline::flow(&format!("[image: {alt}]"), &mut self.flowing);
        }
    }

    fn meta(&mut self, tag: &Tag) {
        if self.other_title.is_empty() && matches!(tag.property.as_str(), "og:title" | "twitter:title" | "title") {
            self.other_title = inline::one_line(&tag.content, MAX_TITLE_CHARACTERS);
        }
    }

    fn finish(mut self) -> ParsedPage {
        self.close_to(0);
        self.break_block(Kind::Quote);
        self.close_link();
        if let Some(last) = self.read.blocks.last_mut() {
            last.links.append(&mut self.flowing_links);
        }
        let heading = |block: &&Block| block.form == BlockKind::Heading(1);
        let fallback = || {
            let block = self.read.blocks.iter().find(heading)?;
            Some(inline::one_line(&inline::with_links(&block.text, |_| None), MAX_TITLE_CHARACTERS))
        };
        let mut title = String::new();
        inline::flow(&self.title, &mut title);
        if title.trim().is_empty() {
            title.clear();
            inline::flow(&self.other_title, &mut title);
        }
        if title.trim().is_empty() {
            title = fallback().unwrap_or_default();
        }
        self.read.title = inline::one_line(&title, MAX_TITLE_CHARACTERS);
        self.read
    }
}

fn open(tag: &Tag, kind: Kind) -> OpenElement {
    OpenElement { name: tag.name, kind, skips: false, is_chrome: false, next_number: 1 }
}
