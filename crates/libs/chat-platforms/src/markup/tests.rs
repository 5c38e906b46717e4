use proptest::prelude::*;

use super::*;

const STYLE: Style = Style {
    limit: 60,
    measure: characters,
    escape: |text| text.replace('&', "&amp;").replace('<', "&lt;"),
    strong: |text| format!("<b>{text}</b>"),
    emphasis: |text| format!("<i>{text}</i>"),
    strikethrough: |text| format!("<s>{text}</s>"),
    code: |text| format!("<code>{}</code>", text.replace('&', "&amp;").replace('<', "&lt;")),
    // An unlimited language would leave no space for the text.
    code_block: |text, language| {
        let language: String = language.chars().take(8).collect();
        format!("<pre {language}>{}</pre>", text.replace('&', "&amp;").replace('<', "&lt;"))
    },
    link: |label, url| format!("<a {url}>{label}</a>"),
    heading: |text, _| format!("<b>{text}</b>"),
    quote: |text| format!("<q>{text}</q>"),
    bullet: "• ",
};

fn rendered(markdown: &str) -> Vec<String> {
    render(markdown, &STYLE)
}

#[test]
fn markdown_is_rendered_in_the_markup() {
    assert_eq!(
        rendered("# Hi\n\n**a** *b* ~~c~~ `d<e`"),
        ["<b>Hi</b>\n\n<b>a</b> <i>b</i> <s>c</s> <code>d&lt;e</code>"]
    );
    assert_eq!(rendered("[it](https://x) <b>"), ["<a https://x>it</a> &lt;b>"]);
    assert_eq!(rendered("- a\n- b\n  1. c\n  2. d\n- [x] e"), ["• a\n• b\n  1. c\n  2. d\n• ☑ e"]);
    assert_eq!(rendered("> a\n>\n> **b**"), ["<q>a\n\n<b>b</b></q>"]);
    assert_eq!(rendered("```rust\nlet x;\n```"), ["<pre rust>let x;</pre>"]);
    assert_eq!(rendered("|a|bb|\n|-|-|\n|ccc|d|"), ["<pre >a    bb\nccc  d</pre>"]);
    assert_eq!((rendered(""), rendered(" \n\n")), (Vec::<String>::new(), Vec::<String>::new()));
}

#[test]
fn parts_end_between_blocks_and_code_stays_whole() {
    let text = "a ".repeat(20) + "\n\n" + &"b ".repeat(20);
    assert_eq!(rendered(&text).len(), 2);
    let text = format!("{}\n\n```\n{}\n```", "x".repeat(40), "y".repeat(40));
    assert_eq!(rendered(&text), ["x".repeat(40), format!("<pre >{}</pre>", "y".repeat(40))]);
}

#[test]
fn long_blocks_are_split_without_unclosed_markup() {
    let parts = rendered(&format!("**{}**", "word ".repeat(30).trim()));
    assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= 60 && !part.contains('<')), "{parts:?}");
    let parts = rendered(&format!("```\n{}```", "line of code\n".repeat(20)));
    assert!(parts.iter().all(|part| part.starts_with("<pre >line") && part.ends_with("</pre>")), "{parts:?}");
    let parts = rendered(&"&".repeat(100));
    assert!(parts.iter().all(|part| part.len() % 5 == 0), "an escape is not cut: {parts:?}");
}

#[test]
fn long_cell_does_not_widen_other_rows() {
    let rows = "|b|c|\n".repeat(1_000);
    // Longer than the maximum padding of the standard library, beyond which it panics.
    let parts = rendered(&format!("|{}|d|\n|-|-|\n{rows}", "a".repeat(70_000)));
    let length: usize = parts.iter().map(String::len).sum();
    assert!(length < 70_000 * 2 + 1_000 * (MAX_ROW + 60), "{length}");
}

/// Length of a row of two columns with a first column of maximum width.
const MAX_ROW: usize = 60 + 3;

#[test]
fn deeply_nested_text_is_rendered_once() {
    let count = 20_000;
    for (text, letter) in [
        (">".repeat(count) + " a", 'a'),
        ("- ".repeat(count) + "a", 'a'),
        ("*a **b ".repeat(count) + &"** *".repeat(count), 'b'),
    ] {
        let written: usize = rendered(&text).iter().map(|part| part.matches(letter).count()).sum();
        let expected = if letter == 'a' { 1 } else { count };
        assert!(written >= expected, "{letter} {written}");
    }
}

proptest! {
    // The repetition keeps it a separate alternative; otherwise proptest merges the classes and generates little
    // markup.
    #[test]
    fn every_part_is_within_the_limit(text in "(\\PC|[\\n*_`>#|-]{1,3}){0,400}") {
        for part in rendered(&text) {
            prop_assert!(characters(&part) <= STYLE.limit && !part.trim().is_empty());
        }
    }

    #[test]
    fn every_word_is_preserved(words in prop::collection::vec("[a-z]{1,12}", 1..120)) {
        let parts = rendered(&words.join(" ")).join(" ");
        prop_assert_eq!(parts.split_whitespace().collect::<Vec<_>>(), words);
    }
}
