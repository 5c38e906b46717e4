//! Results go to stdout, talk goes to stderr. Colours only where a person looks and wants them.

use std::io::{IsTerminal, Write};

/// Writes a line of the result. A reader that went away is no failure of ours.
pub(super) fn print_line(text: impl std::fmt::Display) {
    drop(writeln!(std::io::stdout().lock(), "{text}"));
}

/// Writes a piece of the result at once.
pub(super) fn print_piece(text: &str) {
    let mut stdout = std::io::stdout().lock();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Says something to the person.
pub(super) fn say(text: impl std::fmt::Display) {
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}

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
        self.wrap("32", text)
    }

    pub(super) fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    pub(super) fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    pub(super) fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.is_coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
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
