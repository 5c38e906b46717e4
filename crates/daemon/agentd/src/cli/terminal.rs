//! Output of commands: results to stdout, messages to stderr. All output is [`SafeText`], so that text of models, tools
//! or other users cannot send escape sequences to a terminal. Colors are used only on a terminal and not if `NO_COLOR`
//! is set.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

use agentd_base::visible;
use serde_json::Value;

/// Text whose control and hidden characters are escaped, except line feeds and tabs. Only a [`Style`] adds escape
/// sequences, for colors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SafeText(String);

impl SafeText {
    /// Appends more text.
    pub(super) fn then(mut self, text: impl Into<Self>) -> Self {
        self.0.push_str(&text.into().0);
        self
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SafeText {
    fn from(text: &str) -> Self {
        Self(without_controls(text).into_owned())
    }
}

impl From<String> for SafeText {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<std::fmt::Arguments<'_>> for SafeText {
    fn from(text: std::fmt::Arguments<'_>) -> Self {
        Self::from(text.to_string())
    }
}

/// Writes a line of the result. A closed pipe is ignored.
pub(super) fn print_line(text: impl Into<SafeText>) {
    print_piece(text.into().then("\n"));
}

/// Writes a piece of the result immediately.
pub(super) fn print_piece(text: impl Into<SafeText>) {
    drop(write_piece(&text.into()));
}

/// Writes a line of the result and returns failures.
pub(super) fn write_line(text: impl Into<SafeText>) -> std::io::Result<()> {
    write_piece(&text.into().then("\n"))
}

/// Writes a pretty-printed JSON value.
pub(super) fn print_json(value: &Value) {
    drop(write_piece(&SafeText(json_without_controls(format!("{value:#}\n")))));
}

/// Writes a JSON value as one line.
pub(super) fn write_json_line(value: &Value) -> std::io::Result<()> {
    write_piece(&SafeText(json_without_controls(format!("{value}\n"))))
}

/// Writes a message line to stderr.
pub(super) fn print_message(text: impl Into<SafeText>) {
    print_message_piece(text.into().then("\n"));
}

/// Writes an error and its causes.
pub(super) fn print_error(error: &dyn std::error::Error) {
    print_message(format_args!("agentd: {error}"));
    let mut source = error.source();
    while let Some(cause) = source {
        print_message(format_args!("  because: {cause}"));
        source = cause.source();
    }
}

/// Writes a piece of a message to stderr immediately.
pub(super) fn print_message_piece(text: impl Into<SafeText>) {
    let mut stderr = std::io::stderr().lock();
    drop(stderr.write_all(text.into().0.as_bytes()).and_then(|()| stderr.flush()));
}

fn write_piece(text: &SafeText) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.0.as_bytes()).and_then(|()| stdout.flush())
}

/// Escapes control and hidden characters: text must not set the clipboard, move the cursor, or hide output.
fn without_controls(text: &str) -> Cow<'_, str> {
    let escaped = visible::escape_prose(text);
    if escaped.contains('\r') { Cow::Owned(escaped.replace("\r\n", "\n")) } else { escaped }
}

/// Puts untrusted text on one line, so that it cannot forge further lines of the output.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// Escapes the control characters that JSON allows in strings: DEL, and U+0080 to U+009F.
fn json_without_controls(json: String) -> String {
    let is_safe = |character: char| !character.is_control() || character == '\n';
    if json.chars().all(is_safe) {
        return json;
    }
    let mut text = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_safe(character) {
            text.push(character);
        } else {
            text.push_str(&format!("\\u{:04x}", u32::from(character)));
        }
    }
    text
}

const RESET: &str = "0";
const FAINT: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// Style of text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    is_colored: bool,
}

impl Style {
    /// Style for stdout.
    pub(super) fn of_stdout() -> Self {
        Self::of(std::io::stdout().is_terminal())
    }

    /// Style for stderr.
    pub(super) fn of_stderr() -> Self {
        Self::of(std::io::stderr().is_terminal())
    }

    /// See <https://no-color.org>.
    fn of(is_terminal: bool) -> Self {
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { is_colored: is_terminal && !is_unwanted && !is_dumb }
    }

    pub(super) fn is_colored(self) -> bool {
        self.is_colored
    }

    pub(super) fn green(self, text: &str) -> SafeText {
        self.wrap(GREEN, text)
    }

    pub(super) fn yellow(self, text: &str) -> SafeText {
        self.wrap(YELLOW, text)
    }

    pub(super) fn red(self, text: &str) -> SafeText {
        self.wrap(RED, text)
    }

    pub(super) fn faint(self, text: &str) -> SafeText {
        self.wrap(FAINT, text)
    }

    fn wrap(self, code: &str, text: &str) -> SafeText {
        let text = without_controls(text);
        if !self.is_colored {
            return SafeText(text.into_owned());
        }
        SafeText(format!("\x1b[{code}m{text}\x1b[{RESET}m"))
    }
}

/// Aligns columns: every cell but the last of a row is padded to its column's width. A cell is one line.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SET_CLIPBOARD: &str = "a\x1b]52;c;ZXZpbA==\x07b\u{9b}2Jc\r\n\td\x7f\x1b[31m";

    #[test]
    fn escape_sequences_in_text_are_escaped() {
        let shown = "a\\u{1b}]52;c;ZXZpbA==\\u{7}b\\u{9b}2Jc\n\td\\u{7f}\\u{1b}[31m";
        assert_eq!(SafeText::from(SET_CLIPBOARD).as_str(), shown);
        assert_eq!(SafeText::from("c\u{e0041}").as_str(), "c\\u{e0041}");
        let style = Style { is_colored: true };
        let line = style.red("x\x1b[2Jy").then(format_args!(" {SET_CLIPBOARD}"));
        assert_eq!(line.as_str(), format!("\x1b[31mx\\u{{1b}}[2Jy\x1b[0m {shown}"));
        let plain = Style { is_colored: false };
        assert_eq!(plain.red("x\x1b[2Jy").as_str(), "x\\u{1b}[2Jy");
    }

    #[test]
    fn table_cell_cannot_forge_a_row() {
        let rows = [vec!["NAME".to_owned(), "ID".to_owned()], vec!["eve\nada\t\x1b[2J".to_owned(), "1".to_owned()]];
        let text = table(&rows);
        assert_eq!(text.lines().count(), 2, "{text:?}");
        assert!(!text.contains(['\t', '\x1b']), "{text:?}");
    }

    proptest! {
        #[test]
        fn text_is_without_controls(text in "(?s).*") {
            let safe = SafeText::from(text.as_str());
            prop_assert!(safe.as_str().chars().all(|character| !character.is_control() || matches!(character, '\n' | '\t')));
        }

        #[test]
        fn json_is_without_controls_and_stays_the_same(text in "(?s).*") {
            let value = json!({"text": text, "more": [text]});
            for json in [format!("{value}"), format!("{value:#}")] {
                let safe = json_without_controls(json);
                prop_assert!(safe.chars().all(|character| !character.is_control() || character == '\n'));
                prop_assert_eq!(serde_json::from_str::<Value>(&safe).unwrap(), value.clone());
            }
        }
    }
}
