//! Removal of base64 from text: models cannot read it, and an image would fill the context window.

use std::borrow::Cow;

use serde_json::Value;

/// Minimum length of a run that is replaced; keys and digests are shorter.
const MIN_RUN: usize = 8 * 1024;

/// Replaces every long run of base64 with a note about its length.
pub(super) fn collapse(text: &str) -> Cow<'_, str> {
    if text.len() < MIN_RUN {
        return Cow::Borrowed(text);
    }
    let mut collapsed = String::new();
    let mut kept_from = 0;
    for (start, run) in runs(text).filter(|(_, run)| is_base64(run)) {
        collapsed.push_str(&text[kept_from..start]);
        let digits = run.bytes().filter(|byte| is_digit(*byte)).count();
        collapsed.push_str(&format!("[{} bytes in base64 left out]", digits * 3 / 4));
        kept_from = start + run.len();
    }
    if kept_from == 0 {
        return Cow::Borrowed(text);
    }
    collapsed.push_str(&text[kept_from..]);
    Cow::Owned(collapsed)
}

/// Applies [`collapse`] to every string in `value`.
pub(super) fn collapse_in(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(collapsed) = collapse(text) {
                *text = collapsed;
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(collapse_in),
        Value::Object(members) => members.values_mut().for_each(collapse_in),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns runs of base64 characters, with or without line breaks, and their positions.
fn runs(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| u8::try_from(c).is_ok_and(|byte| is_digit(byte) || matches!(byte, b'=' | b'\r' | b'\n'));
    let mut end = 0;
    text.split_inclusive(move |c| !is_part(c)).filter_map(move |piece| {
        let start = end;
        end += piece.len();
        let piece = piece.trim_end_matches(|c: char| !is_part(c));
        let run = piece.trim_start_matches(['\r', '\n']);
        let start = start + piece.len() - run.len();
        let run = without_words(run.trim_end_matches(['\r', '\n']));
        (run.len() >= MIN_RUN).then_some((start, run))
    })
}

/// Removes trailing lines that begin with a word; lines of base64 have a multiple of four digits.
fn without_words(run: &str) -> &str {
    let mut run = run;
    while let Some((before, _)) = run.rsplit_once('\n').filter(|(_, line)| line.len() % 4 != 0) {
        run = before.trim_end_matches(['\r', '\n']);
    }
    run
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// Whether a run is base64. Numbers, words and hex dumps lack some character classes or have short lines.
fn is_base64(run: &str) -> bool {
    let has = |is: fn(&u8) -> bool| run.as_bytes().iter().any(is);
    let lines = run.lines().count();
    has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit) && run.len() / lines >= 60
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_base64_runs_are_replaced() {
        let blob = "aB3/".repeat(4_000);
        let lines = blob.as_bytes().chunks(76).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\r\n");
        assert_eq!(collapse(&format!("a {blob}== b")), "a [12000 bytes in base64 left out] b");
        assert_eq!(collapse(&format!("x:\n{lines}\ny z")), "x:\n[12000 bytes in base64 left out]\ny z");
        let words = "Some words and 3 numbers\n".repeat(1_000);
        let names = "Name1\n".repeat(4_000);
        for kept in ["aB3/".repeat(1_000), "0123456789abcdef".repeat(1_000), words, names, "ä".repeat(10_000)] {
            assert_eq!(collapse(&kept), kept);
        }
    }
}
