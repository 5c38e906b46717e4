//! Readable text out of what a web server answered: for a model that is to read a page, not to
//! render it. Markdown-like text, a title, and the links.
//!
//! Invariants
//! - Nothing panics, whatever the bytes are. Time grows with the size of the input and no faster,
//!   memory is bounded: the page is read as a stream of tokens (the HTML standard's tokenizer), no
//!   tree is built, and nesting, blocks, links and text have limits.
//! - What a person would not see is not in the text: scripts, styles, hidden elements, invisible and
//!   direction-changing characters. A page must not whisper to a model.
//! - Links are absolute and start with `http://` or `https://`.
//!
//! Deliberately absent: fetching anything, running scripts, style sheets, and the tree repairs of a
//! browser. Their cost grows with the square of a hostile page's size (as the standard prescribes),
//! and text in reading order does not need them.

mod block;
mod chrome;
mod decode;
mod element;
mod inline;
mod media_type;
mod page;
mod reader;
mod render;
mod selection;
mod stack;

use url::Url;

use media_type::Form;
pub use media_type::PageTextError;
use page::cut;
pub use page::{Link, MAX_LINKS, MAX_TEXT_BYTES, ReadablePage};

/// What is read of a body; the rest is left out.
pub const MAX_INPUT_BYTES: usize = 10 << 20;

/// Reads an answer's body by what its `Content-Type` says: a web page becomes readable text, other
/// text (JSON, plain text, CSV, XML …) stays as it is, in Unicode.
///
/// The encoding is that of the byte-order mark, else the header's, else the page's own, else UTF-8
/// or, where that does not fit, Windows-1252.
///
/// # Errors
/// [`PageTextError::NotText`] for anything else.
pub fn read_body(body: &[u8], content_type: Option<&str>, base_url: &Url) -> Result<ReadablePage, PageTextError> {
    let is_cut = body.len() > MAX_INPUT_BYTES;
    let body = &body[..body.len().min(MAX_INPUT_BYTES)];
    let form = media_type::form_of(content_type, body)?;
    let decoded = decode::decode(body, content_type, form == Form::Html);
    let mut page = match form {
        Form::Html => readable_text(&decoded, base_url),
        Form::Plain => {
            let mut text = decoded.into_owned();
            let is_truncated = cut(&mut text, MAX_TEXT_BYTES);
            ReadablePage { text, is_truncated, ..ReadablePage::default() }
        }
    };
    page.is_truncated |= is_cut;
    Ok(page)
}

/// Turns a web page into text. `base_url` is where it came from; relative links lead from there
/// (or from where the page's `<base>` says).
#[must_use]
pub fn readable_text(html: &str, base_url: &Url) -> ReadablePage {
    let mut end = html.len().min(MAX_INPUT_BYTES);
    while !html.is_char_boundary(end) {
        end -= 1;
    }
    let mut page = render::page(reader::read(&html[..end], base_url));
    page.is_truncated |= end < html.len();
    page
}
