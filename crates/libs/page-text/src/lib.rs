//! Extraction of readable text from web server responses, for models that read pages: Markdown-like text, a title and
//! the links.
//!
//! Invariants
//! - No input causes a panic. Time is linear in the size of the input, and memory is limited: the page is read as a
//!   stream of tokens (the HTML standard's tokenizer), no tree is built, and nesting, blocks, links and text have
//!   limits.
//! - Invisible contents are omitted: scripts, styles, hidden elements, invisible and direction-changing characters. A
//!   page must not be able to address a model without the user seeing it.
//! - Links are absolute and start with `http://` or `https://`.
//!
//! Deliberately absent: fetching, scripts, style sheets, and the tree repairs of a browser. As standardized, their cost
//! is quadratic in the size of a hostile page, and text in reading order does not need them.

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

use media_type::BodyFormat;
pub use media_type::PageTextError;
use page::truncate;
pub use page::{Link, MAX_LINKS, MAX_TEXT_BYTES, ReadablePage};

/// Maximum number of bytes read from a body; the remainder is ignored.
pub const MAX_INPUT_BYTES: usize = 10 << 20;

/// Reads a response body according to its `Content-Type`: a web page is converted to readable text, other text (JSON,
/// plain text, CSV, XML …) is only decoded to Unicode.
///
/// The encoding is taken from the byte-order mark, else the header, else the page. The default is UTF-8, or
/// Windows-1252 for invalid UTF-8.
///
/// # Errors
/// [`PageTextError::NotText`] for other types.
pub fn read_body(body: &[u8], content_type: Option<&str>, base_url: &Url) -> Result<ReadablePage, PageTextError> {
    let is_truncated = body.len() > MAX_INPUT_BYTES;
    let body = &body[..body.len().min(MAX_INPUT_BYTES)];
    let form = media_type::body_format(content_type, body)?;
    let decoded = decode::decode(body, content_type, form == BodyFormat::Html);
    let mut page = match form {
        BodyFormat::Html => readable_text(&decoded, base_url),
        BodyFormat::Plain => {
            let mut text = decoded.into_owned();
            let is_truncated = truncate(&mut text, MAX_TEXT_BYTES);
            ReadablePage { text, is_truncated, ..ReadablePage::default() }
        }
    };
    page.is_truncated |= is_truncated;
    Ok(page)
}

/// Converts a web page to text. Relative links are resolved against `base_url`, or against the page's `<base>`.
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
