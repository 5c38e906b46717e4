//! The terminal while it is drawn on.

use std::io::{IsTerminal, Write};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::super::terminal::{SafeText, Style};
use super::view::{Line, Tone};

/// The other screen, without a cursor, on which lines that are too long are cut.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Dropped, it leaves the terminal as it was.
pub(super) struct Screen {
    /// How the keyboard was; `None` where there is none.
    keyboard: Option<Termios>,
    style: Style,
}

impl Screen {
    pub(super) fn open() -> Self {
        let stdin = std::io::stdin();
        let keyboard = if stdin.is_terminal() { tcgetattr(&stdin).ok() } else { None };
        if let Some(was) = &keyboard {
            let mut modes = was.clone();
            // Keys come at once and are not shown.
            modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            // Stopped, it would leave the shell with this screen.
            modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
            let _ = tcsetattr(&stdin, OptionalActions::Now, &modes);
        }
        write(ENTER);
        Self { keyboard, style: Style::of_stdout() }
    }

    /// Puts these lines in place of what is there, as far as there is room.
    pub(super) fn draw(&self, lines: &[Line]) {
        let (columns, rows) = size();
        let mut text = String::from("\x1b[H");
        for (number, line) in lines.iter().take(rows).enumerate() {
            if number > 0 {
                text.push('\n');
            }
            let cut: String = line.text.chars().filter(|sign| !sign.is_control()).take(columns).collect();
            let safe = match line.tone {
                Tone::Plain => SafeText::from(cut),
                Tone::Faint => self.style.faint(&cut),
                Tone::Good => self.style.green(&cut),
                Tone::Warning => self.style.yellow(&cut),
                Tone::Bad => self.style.red(&cut),
            };
            text.push_str(safe.as_str());
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        write(&text);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        write(LEAVE);
        if let Some(was) = &self.keyboard {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, was);
        }
    }
}

/// Columns and rows; those of old where the terminal does not say.
fn size() -> (usize, usize) {
    match tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// A terminal that went away is no failure of ours.
fn write(text: &str) {
    let mut stdout = std::io::stdout().lock();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}
