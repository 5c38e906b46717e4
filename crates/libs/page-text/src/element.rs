//! Classification of elements for reading.

/// Meaning of an element name for the text flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ignored with its contents.
    Skip,
    /// Element without an end tag.
    Void,
    Break,
    Rule,
    Image,
    Meta,
    Base,
    Title,
    Link,
    Code,
    Paragraph,
    Heading(u8),
    List {
        is_ordered: bool,
    },
    Item,
    Table,
    Row,
    Cell {
        is_header: bool,
    },
    Preformatted,
    Quote,
    /// Main content.
    Main,
    /// Navigation and other surroundings of the content.
    Chrome,
    /// Generic block.
    Block,
    /// Inline element.
    Inline,
}

impl Kind {
    pub(crate) fn of(name: &[u8]) -> Self {
        match name {
            b"script" | b"style" | b"noscript" | b"template" | b"svg" | b"math" | b"iframe" | b"object" | b"canvas"
            | b"audio" | b"video" | b"select" | b"datalist" | b"textarea" | b"button" | b"noembed" | b"noframes"
            | b"applet" | b"map" | b"progress" | b"meter" => Self::Skip,
            b"area" | b"col" | b"embed" | b"input" | b"link" | b"param" | b"source" | b"track" | b"wbr" | b"frame"
            | b"keygen" | b"basefont" | b"bgsound" => Self::Void,
            b"br" => Self::Break,
            b"hr" => Self::Rule,
            b"img" | b"image" => Self::Image,
            b"meta" => Self::Meta,
            b"base" => Self::Base,
            b"title" => Self::Title,
            b"a" => Self::Link,
            b"code" | b"kbd" | b"samp" | b"tt" => Self::Code,
            b"p" => Self::Paragraph,
            b"h1" => Self::Heading(1),
            b"h2" => Self::Heading(2),
            b"h3" => Self::Heading(3),
            b"h4" => Self::Heading(4),
            b"h5" => Self::Heading(5),
            b"h6" => Self::Heading(6),
            b"ol" => Self::List { is_ordered: true },
            b"ul" | b"dl" | b"menu" | b"dir" => Self::List { is_ordered: false },
            b"li" | b"dt" | b"dd" => Self::Item,
            b"table" => Self::Table,
            b"tr" => Self::Row,
            b"td" => Self::Cell { is_header: false },
            b"th" => Self::Cell { is_header: true },
            b"pre" | b"listing" | b"xmp" | b"plaintext" => Self::Preformatted,
            b"blockquote" => Self::Quote,
            b"main" | b"article" => Self::Main,
            b"nav" | b"footer" | b"aside" | b"header" | b"dialog" => Self::Chrome,
            b"address" | b"body" | b"caption" | b"center" | b"details" | b"div" | b"fieldset" | b"figcaption"
            | b"figure" | b"form" | b"frameset" | b"head" | b"hgroup" | b"html" | b"legend" | b"option"
            | b"optgroup" | b"search" | b"section" | b"summary" | b"tbody" | b"tfoot" | b"thead" => Self::Block,
            _ => Self::Inline,
        }
    }

    /// Whether it interrupts a paragraph.
    pub(crate) fn is_block(self) -> bool {
        !matches!(
            self,
            Self::Inline
                | Self::Link
                | Self::Code
                | Self::Image
                | Self::Break
                | Self::Void
                | Self::Meta
                | Self::Base
                | Self::Title
                | Self::Skip
        )
    }

    pub(crate) fn has_end_tag(self) -> bool {
        !matches!(self, Self::Void | Self::Break | Self::Rule | Self::Image | Self::Meta | Self::Base)
    }
}

/// Start tag being parsed, with the relevant attributes.
#[derive(Debug, Default)]
pub(crate) struct Tag {
    pub(crate) name: u64,
    pub(crate) kind: Option<Kind>,
    /// Whether it is `html` or `body`, whose words describe the whole page.
    pub(crate) is_root: bool,
    pub(crate) is_term: bool,
    pub(crate) href: String,
    pub(crate) alt: String,
    pub(crate) content: String,
    pub(crate) property: String,
    pub(crate) start: String,
    /// Values of `class`, `id` and `role`, searched for words.
    pub(crate) words: String,
    pub(crate) style: String,
    pub(crate) is_hidden: bool,
    pub(crate) is_open: bool,
    attribute: Vec<u8>,
}

/// Maximum retained length of an attribute; a longer URL is not a link.
const MAX_ATTRIBUTE_BYTES: usize = 4096;

impl Tag {
    pub(crate) fn new(name: &[u8]) -> Self {
        Self {
            name: fingerprint(name),
            kind: Some(Kind::of(name)),
            is_root: matches!(name, b"html" | b"body"),
            is_term: name == b"dt",
            ..Self::default()
        }
    }

    pub(crate) fn attribute(&mut self, name: &[u8]) {
        self.attribute.clear();
        self.attribute.extend_from_slice(&name[..name.len().min(32)]);
        match name {
            b"hidden" => self.is_hidden = true,
            b"open" => self.is_open = true,
            _ => {}
        }
    }

    pub(crate) fn value(&mut self, value: &[u8]) {
        let text = || String::from_utf8_lossy(&value[..value.len().min(MAX_ATTRIBUTE_BYTES)]).into_owned();
        let slot = match self.attribute.as_slice() {
            b"href" => &mut self.href,
            b"alt" => &mut self.alt,
            b"content" => &mut self.content,
            b"property" | b"name" => &mut self.property,
            b"start" => &mut self.start,
            b"style" => &mut self.style,
            b"class" | b"id" | b"role" => {
                self.words.push_str(&text());
                self.words.push(' ');
                return;
            }
            b"aria-hidden" => {
                self.is_hidden |= value.eq_ignore_ascii_case(b"true");
                return;
            }
            b"hidden" => {
                // `until-found` content can be found by searching, so it counts as visible.
                self.is_hidden &= !value.eq_ignore_ascii_case(b"until-found");
                return;
            }
            _ => return,
        };
        // The first of two equal attributes wins.
        if slot.is_empty() {
            *slot = text();
        }
    }

    /// Whether a browser would not show the element.
    pub(crate) fn is_invisible(&self) -> bool {
        if self.is_hidden {
            return true;
        }
        if self.style.is_empty() {
            return false;
        }
        let style: String = self.style.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
        style.split(';').any(|rule| {
            let rule = rule.strip_suffix("!important").unwrap_or(rule);
            matches!(rule, "display:none" | "visibility:hidden" | "visibility:collapse" | "opacity:0" | "font-size:0")
                || rule == "font-size:0px"
        })
    }
}

/// Hash of a name (FNV-1a) for comparison, since names may have any length.
pub(crate) fn fingerprint(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
