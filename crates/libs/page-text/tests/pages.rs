//! Realistic pages and the text extracted from them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use agentd_page_text::{PageTextError, ReadablePage, read_body, readable_text};
use url::Url;

fn base() -> Url {
    Url::parse("https://me:secret@shoreline.example/news/pools.html?x=1").unwrap()
}

fn page(html: &str) -> ReadablePage {
    readable_text(html, &base())
}

fn links(page: &ReadablePage) -> Vec<(&str, &str)> {
    page.links.iter().map(|link| (link.text.as_str(), link.url.as_str())).collect()
}

#[test]
fn article_is_read_without_surroundings() {
    let page = page(include_str!("pages/article.html"));
    assert_eq!(page.title, "Why tide pools empty & fill | The Shoreline Post");
    assert_eq!(page.text, include_str!("pages/article.txt").trim_end());
    assert_eq!(
        links(&page),
        [
            ("Mira Holt", "https://shoreline.example/authors/mira-holt?ref=byline"),
            ("pull of the moon", "https://shoreline.example/science/moon.html"),
        ]
    );
    assert!(!page.is_truncated);
}

#[test]
fn code_tables_and_definitions_are_read() {
    let page = page(include_str!("pages/reference.html"));
    assert_eq!(page.title, "frobnicate(1)");
    assert_eq!(page.text, include_str!("pages/reference.txt").trim_end());
    assert_eq!(
        links(&page),
        [
            ("stuck", "https://shoreline.example/errors?code=1&lang=en"),
            ("that", "https://cdn.example/x"),
            ("http://other.example/", "http://other.example/"),
        ]
    );
}

#[test]
fn layout_tables_are_read_as_paragraphs() {
    let page = page(include_str!("pages/layout.html"));
    assert_eq!(page.title, "Harbour notices");
    assert_eq!(page.text, include_str!("pages/layout.txt").trim_end());
    assert_eq!(links(&page), [("eastern quay", "http://harbour.example/notices/map.html")]);
}

#[test]
fn page_of_links_keeps_its_links() {
    let items: String = (0..40).map(|n| format!("<li><a href='/{n}'>Story number {n}</a></li>")).collect();
    let page = page(&format!("<title>Front</title><div class=feed><ul>{items}</ul></div><footer>Imprint</footer>"));
    assert_eq!(page.links.len(), 40);
    assert!(
        page.text.starts_with("- [Story number 0](https://shoreline.example/0)\n- [") && !page.text.contains("Imprint")
    );
}

#[test]
fn links_are_shown_in_the_text() {
    for (html, text) in [
        ("<p>para <a href='/x'>link</a>, more", "para [link](https://shoreline.example/x), more"),
        ("<p>a<a href=' y '> b </a>c", "a [b](https://shoreline.example/news/y) c"),
        ("<p>para <a href='javascript:alert(1)'>link</a>", "para link"),
        ("<p>para <a href='data:text/html,x'>link</a>", "para link"),
        ("<p>para <a href='#there'>link</a>", "para link"),
        ("<p>para <a href='pools.html?x=1#there'>link</a>", "para link"),
        ("<p>para <a href='/x'> </a>end", "para end"),
        ("<p><a href='/x'>one</a> and <a href='/x'>one again", "[one](https://shoreline.example/x) and one again"),
        ("<p>para \u{fff9}no link\u{fffa}0\u{fffb}", "para no link0"),
        ("<pre>code <a href='/x'>link</a></pre>", "```\ncode link\n```"),
    ] {
        assert_eq!(page(html).text, text, "{html}");
    }
    let long = format!("<p>para <a href='/{}'>link</a>", "x".repeat(400));
    assert_eq!(page(&long).text, "para link");
}

#[test]
fn page_with_only_chrome_is_still_read() {
    let page =
        page("<body><div class='modal popup'><nav><p>The only text there is, in the wrong place.</p></nav></div>");
    assert_eq!(page.text, "The only text there is, in the wrong place.");
}

#[test]
fn titles_are_found() {
    assert_eq!(page("<meta property=og:title content='  A  card '><h1>B</h1>").title, "A card");
    assert_eq!(page("<h1>Big <i>words</i></h1><p>x").title, "Big words");
    assert_eq!(page("<svg><title>Icon</title></svg><p>x").title, "");
    assert_eq!(page("<title> </title><h1>B</h1>").title, "B");
}

#[test]
fn invisible_text_is_not_read() {
    for hidden in [
        "<p hidden>secret",
        "<div style='visibility : hidden'>secret</div>",
        "<span style=\"color:red;DISPLAY:NONE !important\">secret <span>secret</span> secret</span>",
        "<div style='font-size:0'>secret<div>secret</div>secret</div>",
        "<b aria-hidden=true>secret</b>",
        "<template>secret</template>",
        "<noscript>secret</noscript>",
        "<dialog><p>secret</p></dialog>",
        "<!-- secret -->",
        "<script>secret</script>",
        "<style>secret</style>",
        "<svg><text>secret</text></svg>",
        "<textarea>secret</textarea>",
        "<select><option>secret</select>",
        "<a href='/x' hidden>secret</a>",
        "<ul><li hidden>secret<li hidden>secret</ul>",
        "<img alt='secret' hidden>",
    ] {
        let page = page(&format!("<div>seen</div>{hidden}<p>seen <i>too</i></p>"));
        assert_eq!(page.text, "seen\n\nseen too", "{hidden}");
        assert!(page.links.is_empty());
    }
    let page = page("<p>a\u{200b}b\u{202e}c\u{e0061}\u{e0062}&#8203;&shy;d</p>");
    assert_eq!(page.text, "abcd");
}

#[test]
fn other_encodings_are_read() {
    let read = |body: &[u8], content_type: &str| read_body(body, Some(content_type), &base()).unwrap();
    let latin = b"<title>Gr\xfc\xdfe</title><p>sch\xf6n \x96 teuer: 5 \x80";
    for page in [read(latin, "text/html; charset=ISO-8859-1"), read(latin, "text/html")] {
        assert_eq!((page.title.as_str(), page.text.as_str()), ("Grüße", "schön – teuer: 5 €"));
    }
    let japanese = b"<meta charset=\"euc-jp\"><p>\xa5\xc6\xa5\xb9\xa5\xc8</p>";
    assert_eq!(read(japanese, "text/html").text, "テスト");
    let wide: Vec<u8> = "\u{feff}<p>weit".encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert_eq!(read(&wide, "text/html; charset=utf-8").text, "weit");
    assert_eq!(read("<p>schön".as_bytes(), "text/html; charset=latin1").text, "schön");
}

#[test]
fn other_text_is_unchanged() {
    let read = |body: &str, content_type: Option<&str>| read_body(body.as_bytes(), content_type, &base()).unwrap();
    let json = "{\n  \"a\": \"<p>x</p>\"}";
    assert_eq!(read(json, Some("application/json")).text, json);
    assert_eq!(read(json, Some("application/problem+json; charset=utf-8")).text, json);
    assert_eq!(read("a <b> c\n", Some("text/plain")).text, "a <b> c\n");
    assert_eq!(read("<rss><title>x</title></rss>", Some("application/rss+xml")).text, "<rss><title>x</title></rss>");
    assert_eq!(read("  <!doctype html><p>hi", None).text, "hi");
    assert_eq!(read("just words", None).text, "just words");
    assert_eq!(read("", Some("text/html")), ReadablePage::default());
}

#[test]
fn other_media_types_are_rejected_by_name() {
    for (body, content_type, named) in [
        (&b"\x89PNG\r\n\x1a\n\0\0"[..], Some("image/png"), "image/png"),
        (b"%PDF-1.7", Some("application/pdf; x=y"), "application/pdf"),
        (b"PK\x03\x04\0\0", None, "unknown"),
    ] {
        let PageTextError::NotText { media_type } = read_body(body, content_type, &base()).unwrap_err();
        assert_eq!(media_type, named);
    }
}
