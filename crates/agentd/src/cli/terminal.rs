//! Results go to stdout, talk goes to stderr. Colours only where a person looks and wants them.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

use agentd_base::visible;

/// Writes a line of the result. A reader that went away is no failure of ours.
pub(super) fn print_line(text: impl std::fmt::Display) {
    let stdout = std::io::stdout();
    let line = for_reader(format!("{text}\n"), stdout.is_terminal());
    drop(stdout.lock().write_all(line.as_bytes()));
}

/// Writes a line that is lost for good when it is not written.
pub(super) fn write_line(text: impl std::fmt::Display) -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    let line = for_reader(format!("{text}\n"), stdout.is_terminal());
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}

/// Writes a piece of the result at once.
pub(super) fn print_piece(text: &str) {
    let stdout = std::io::stdout();
    let text = if stdout.is_terminal() { visible::escape_prose(text) } else { Cow::Borrowed(text) };
    let mut stdout = stdout.lock();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Says something to the person.
pub(super) fn say(text: impl std::fmt::Display) {
    let stderr = std::io::stderr();
    let line = for_reader(format!("{text}\n"), stderr.is_terminal());
    drop(stderr.lock().write_all(line.as_bytes()));
}

fn for_reader(text: String, is_terminal: bool) -> String {
    if is_terminal { with_colours_alone(&text) } else { text }
}

/// Escapes every character that a terminal would execute or not show, except the escape sequences of a [`Style`]:
/// what a model or another program wrote must not set the clipboard, move the cursor or hide text.
fn with_colours_alone(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let mut clean = visible::escape_prose(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        let is_colour = CODES.iter().any(|code| part.starts_with(&format!("[{code}m")));
        clean.push_str(if is_colour { "\x1b" } else { "\\u{1b}" });
        clean.push_str(&visible::escape_prose(part));
    }
    clean
}

const RESET: &str = "0";
const FAINT: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CODES: [&str; 5] = [RESET, FAINT, RED, GREEN, YELLOW];

/// How text is set off, if at all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    is_coloured: bool,
}

impl Style {
    /// For what goes to stdout.
    pub(super) fn of_stdout() -> Self {
        Self::of(std::io::stdout().is_terminal())
    }

    /// For what goes to stderr.
    pub(super) fn of_stderr() -> Self {
        Self::of(std::io::stderr().is_terminal())
    }

    /// See <https://no-color.org>.
    fn of(is_terminal: bool) -> Self {
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { is_coloured: is_terminal && !is_unwanted && !is_dumb }
    }

    pub(super) fn green(self, text: &str) -> String {
        self.wrap(GREEN, text)
    }

    pub(super) fn yellow(self, text: &str) -> String {
        self.wrap(YELLOW, text)
    }

    pub(super) fn red(self, text: &str) -> String {
        self.wrap(RED, text)
    }

    pub(super) fn faint(self, text: &str) -> String {
        self.wrap(FAINT, text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if !self.is_coloured {
            return text.to_owned();
        }
        format!("\x1b[{code}m{}\x1b[{RESET}m", visible::escape_prose(text))
    }
}

/// Lines up columns: every cell but the last of a row is padded to its column's width.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
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

    use super::*;

    #[test]
    fn control_sequences_are_escaped() {
        let set_clipboard = "a\x1b]52;c;ZXZpbA==\x07b\u{9b}2Jc\u{e0041}\td\x7f";
        let shown = r"a\u{1b}]52;c;ZXZpbA==\u{7}b\u{9b}2Jc\u{e0041}".to_owned() + "\td" + r"\u{7f}";
        assert_eq!(with_colours_alone(set_clipboard), shown);
        let style = Style { is_coloured: true };
        let line = format!("{} {set_clipboard}", style.red("x\x1b[2Jy"));
        assert_eq!(with_colours_alone(&line), format!("\x1b[31mx\\u{{1b}}[2Jy\x1b[0m {shown}"));
        let sequences = with_colours_alone("\x1b[38;5;1m\x1b[2J\x1b\x1b[2m");
        assert_eq!(sequences, "\\u{1b}[38;5;1m\\u{1b}[2J\\u{1b}\x1b[2m");
    }

    proptest! {
        #[test]
        fn nothing_but_colours_comes_through(text in "(?s).*") {
            let clean = with_colours_alone(&text);
            for (position, _) in clean.match_indices('\x1b') {
                let after = clean.get(position + 1..).unwrap_or_default();
                let is_colour = CODES.iter().any(|code| after.starts_with(&format!("[{code}m")));
                prop_assert!(is_colour);
            }
            let without = clean.replace('\x1b', "");
            prop_assert!(without.chars().all(|sign| !sign.is_control() || matches!(sign, '\n' | '\t' | '\r')));
        }
    }
}
