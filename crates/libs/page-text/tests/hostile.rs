//! Hostile pages: nesting, attribute and formatting bombs, floods and noise. The test is that each one terminates in
//! reasonable time; quadratic cost would take hours.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use agentd_page_text::{MAX_INPUT_BYTES, MAX_LINKS, MAX_TEXT_BYTES, read_body, readable_text};
use proptest::prelude::*;
use url::Url;

const SIZE: usize = 128 << 10;

fn base() -> Url {
    Url::parse("https://hostile.example/").unwrap()
}

/// Returns `opening`, repetitions of `piece` (with `#` replaced by a number), and `end`.
fn flood(size: usize, opening: &str, piece: &str, end: &str) -> String {
    let mut page = String::with_capacity(size + 100);
    page.push_str(opening);
    let mut number = 0u64;
    while page.len() + piece.len() + 20 + end.len() < size {
        page.push_str(&piece.replace('#', &number.to_string()));
        number += 1;
    }
    page.push_str(end);
    page
}

/// Hostile pages as start, repeated piece and end.
const BOMBS: &[(&str, &str, &str)] = &[
    ("", "<div>", "seen"),
    ("", "<span>", "seen"),
    ("", "<ul><li>", "seen"),
    ("", "<table><tr><td>", "seen"),
    ("", "<blockquote>", "seen"),
    ("", "<b a#>", "<p>seen"),
    ("<b x><i y>", "<p>a", ""),
    ("", "<a href=/#>", "seen"),
    ("", "<h1><h2>", "seen"),
    ("<pre>", "<span>`x", "</pre>"),
    ("", "</div>", "seen"),
    ("<div><table><tr><td><ul>", "<li></div>", "seen"),
    ("<svg>", "<g>", "</svg>seen"),
    ("<p hidden>", "<span>", ""),
    ("<div ", "a#=b ", ">seen"),
    ("<div ", "a ", ">seen"),
    ("<div class='", "nav-", "'>seen"),
    ("<a href='", "/x", "'>seen</a>"),
    ("<div style='", "x:y;", "'>seen"),
    ("<title>", "word ", "</title>seen"),
    ("", "&#x41;&amp;&notit;", ""),
    ("", "&", ""),
    ("", "<", ""),
    ("<!--", "--!-", ""),
    ("<script>", "</scrip", ""),
    ("<", "x", ">seen"),
    ("<ol start=4294967295>", "<li>x", ""),
    ("<table>", "<tr><td>x<td>y", ""),
    ("<table><tr>", "<td>x", ""),
    ("", "<img alt='picture of #'>", ""),
    ("", "x ", ""),
    ("", "<br>", "seen"),
    ("", "<code>", "seen"),
    ("<base href='http://a.example/", "x/", "'><a href=y>seen</a>"),
];

#[test]
fn bombs_are_read() {
    for (opening, piece, end) in BOMBS {
        let page = readable_text(&flood(SIZE, opening, piece, end), &base());
        assert!(page.text.len() <= MAX_TEXT_BYTES && page.links.len() <= MAX_LINKS, "{piece}");
        let is_whole = !end.contains("seen") || page.text.contains("seen") || page.is_truncated;
        assert!(is_whole, "{piece}: {}", page.text.len());
    }
}

/// Prints the cost of the largest bombs; asserts nothing.
#[test]
#[ignore = "prints a measurement"]
#[allow(clippy::disallowed_methods, reason = "a stopwatch")]
fn measure_bombs() {
    let peak = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    };
    for (opening, piece, end) in BOMBS {
        let html = flood(MAX_INPUT_BYTES, opening, piece, end);
        let start = std::time::Instant::now();
        let page = readable_text(&html, &base());
        let (took, text) = (start.elapsed(), page.text.len());
        println!("{took:>12?}  {text:>8} bytes of text, process peak {:>4} MiB  {opening}{piece}", peak());
    }
}

#[test]
fn exceeded_limits_are_reported() {
    let long = readable_text(&flood(2 * SIZE, "", "<p>x", ""), &base());
    assert!(long.is_truncated, "too many blocks");
    let long = readable_text(&"some words, again and again ".repeat(200_000), &base());
    assert!(long.is_truncated && long.text.len() <= MAX_TEXT_BYTES);
    let linked =
        readable_text(&flood(2 * SIZE, "<p>", "<a href='/#'>x</a> and so on and so on and so on ", ""), &base());
    assert!(linked.is_truncated && linked.links.len() == MAX_LINKS);
    let larger = vec![b'x'; MAX_INPUT_BYTES + 1];
    let plain = read_body(&larger, Some("text/plain"), &base()).unwrap();
    assert!(plain.is_truncated && plain.text.len() == MAX_TEXT_BYTES);
    // The limit is in the middle of a character.
    let umlauts = "ä".repeat(MAX_INPUT_BYTES / 2 + 10);
    assert!(readable_text(&format!("x{umlauts}"), &base()).is_truncated);
    assert!(read_body(format!("x{umlauts}").as_bytes(), Some("text/plain"), &base()).unwrap().is_truncated);
}

fn tag_soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z ]{0,8}",
        prop::sample::select(vec![
            "<p>",
            "</p>",
            "<div>",
            "</div>",
            "<div hidden>",
            "<ul>",
            "</ul>",
            "<ol start=x>",
            "</ol>",
            "<li>",
            "</li>",
            "<table>",
            "</table>",
            "<tr>",
            "</tr>",
            "<td>",
            "</td>",
            "<th>",
            "<pre>",
            "</pre>",
            "<code>",
            "</code>",
            "<a href=x>",
            "<a href='//[::1'>",
            "</a>",
            "<h1>",
            "</h1>",
            "<h2>",
            "<blockquote>",
            "</blockquote>",
            "<br>",
            "<main>",
            "</main>",
            "<nav>",
            "</nav>",
            "<svg>",
            "</svg>",
            "<svg/>",
            "<title>",
            "</title>",
            "<script>",
            "</script>",
            "<!--",
            "-->",
            "<b",
            "<b x=",
            "'",
            "\"",
            ">",
            "<base href=y>",
            "<base href='http://b.example/'>",
            "<img alt='a b c'>",
            "<dl>",
            "<dt>",
            "<dd>",
            "</dl>",
            "&lt;",
            "&#0;",
            "&#x110000;",
            "\u{0}",
            "\r\n",
            "é",
            "```",
            "<template>",
            "</template>",
            "<span hidden>",
            "</span>",
            "<plaintext>",
            "<textarea>",
            "</textarea>",
            "|",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_tag_soup_is_read(html in tag_soup()) {
        let page = readable_text(&html, &base());
        prop_assert!(!page.title.contains('\n'));
        prop_assert!(!page.text.starts_with(char::is_whitespace) || page.text.starts_with("  "));
        for link in &page.links {
            prop_assert!(link.url.starts_with("http://") || link.url.starts_with("https://"));
            prop_assert!(!link.text.contains('\n') && !link.text.is_empty());
        }
        prop_assert_eq!(&readable_text(&html, &base()), &page, "the same again");
    }

    #[test]
    fn any_bytes_are_read_or_rejected(
        body in prop::collection::vec(any::<u8>(), 0..400),
        content_type in prop::option::of("(text/(html|plain)|application/json|image/png)?(; ?charset=[a-zA-Z0-9\"'_-]{0,12})?"),
    ) {
        let _ = read_body(&body, content_type.as_deref(), &base());
    }

    #[test]
    fn text_is_preserved(words in prop::collection::vec("[a-zA-Z]{1,8}", 1..20)) {
        let html: String = words.iter().map(|word| format!("<p>{word}</p>")).collect();
        prop_assert_eq!(readable_text(&html, &base()).text, words.join("\n\n"));
    }

    #[test]
    fn hidden_text_is_never_shown(html in tag_soup()) {
        // The words are inside a hidden element, whatever elements are left open around it.
        let inside: String = html.replace("</", "<").replace("<!--", "").replace(['"', '\''], "").replace("<b x=", "");
        let page = readable_text(&format!("<div hidden>{inside} zzsecretzz"), &base());
        prop_assert!(!page.text.contains("zzsecretzz"), "{}", page.text);
    }
}
