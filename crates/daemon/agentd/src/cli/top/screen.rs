//! Full-screen terminal output.

use std::io::{IsTerminal, Write};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::super::terminal::{SafeText, Style};
use super::view::{Line, Tone};

/// Enters the alternate screen, hides the cursor and disables line wrapping.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Alternate screen. The terminal is restored on drop.
pub(super) struct Screen {
    /// Previous keyboard modes; `None` if stdin is not a terminal.
    keyboard: Option<Termios>,
    style: Style,
}

impl Screen {
    pub(super) fn open() -> Self {
        let stdin = std::io::stdin();
        let keyboard = if stdin.is_terminal() { tcgetattr(&stdin).ok() } else { None };
        if let Some(was) = &keyboard {
            let mut modes = was.clone();
            // Keys are read immediately and not echoed.
            modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            // Suspending would leave the shell on the alternate screen.
            modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
            let _ = tcsetattr(&stdin, OptionalActions::Now, &modes);
        }
        write(ENTER);
        Self { keyboard, style: Style::of_stdout() }
    }

    /// Replaces the contents of the screen with these lines, truncated to its size.
    pub(super) fn draw(&self, lines: &[Line]) {
        let (columns, rows) = size();
        let mut text = String::from("\x1b[H");
        for (number, line) in lines.iter().take(rows).enumerate() {
            if number > 0 {
                text.push('\n');
            }
            let cut: String = line.text.chars().filter(|character| !character.is_control()).take(columns).collect();
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

/// Returns columns and rows of the terminal, or 80 x 24 if unknown.
fn size() -> (usize, usize) {
    match tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// Writes to the terminal. Failures are ignored, because the terminal may have been closed.
fn write(text: &str) {
    let mut stdout = std::io::stdout().lock();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}
