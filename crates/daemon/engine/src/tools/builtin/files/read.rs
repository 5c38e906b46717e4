//! The tool `read_file`: returns lines with their numbers.

use std::fmt::Write as _;
use std::io::{self, BufRead};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::{CALL_LIMIT, blocking, format_count, tool};
use crate::tools::builtin::input::describe;
use crate::tools::tool::{Effect, MAX_READ_CHARACTERS, Tool, ToolCallContext, ToolError, ToolOutput};
use crate::workspaces::{RelativePath, Workspace, record_path};

/// Maximum size of a file.
const MAX_FILE_BYTES: u64 = 64 << 20;
const MAX_LINES: usize = 2_000;
const MAX_LINE_BYTES: usize = 8_000;
/// Maximum length of a page. It fits into one tool result together with the notes at its end.
const MAX_PAGE_CHARACTERS: usize = MAX_READ_CHARACTERS - 2_000;
/// Width of the line number and its separator.
const NUMBER_CHARACTERS: usize = 8;

#[derive(Deserialize)]
struct Input {
    path: String,
    #[serde(default = "default_first_line")]
    first_line: usize,
    #[serde(default = "default_max_lines")]
    max_lines: usize,
}

fn default_first_line() -> usize {
    1
}

fn default_max_lines() -> usize {
    MAX_LINES
}

pub(crate) fn read_file() -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Path of the file, relative to the workspace"},
            "first_line": {"type": "integer", "minimum": 1, "description": "Where to begin; 1 is the first"},
            "max_lines": {"type": "integer", "minimum": 1, "maximum": MAX_LINES, "description": "How many lines at most"},
        },
        "required": ["path"],
        "additionalProperties": false,
    });
    let text =
        "Reads a text file of the workspace. Answers its lines with their numbers, and says when there are more.";
    let description = describe("read_file", text, schema, Effect::Reads, CALL_LIMIT);
    tool(description, |input: Input, context: ToolCallContext| async move {
        let path = RelativePath::parse_file(&input.path)?;
        record_path(&path, &context.untrusted);
        blocking(&context, move |workspace, _| read(workspace, &path, input.first_line, input.max_lines)).await
    })
}

fn read(
    workspace: &Workspace,
    path: &RelativePath,
    first_line: usize,
    max_lines: usize,
) -> Result<ToolOutput, ToolError> {
    let file = workspace.open_file(path)?;
    let bytes = file.bytes;
    if bytes > MAX_FILE_BYTES {
        let message = format!("`{path}` is {bytes} bytes long; read parts of it with `shell` or `python`");
        return Err(ToolError::Invalid(message));
    }
    let failed = |error: io::Error| ToolError::Failed(format!("`{path}` cannot be read: {error}"));
    let mut reader = file.into_reader();
    if reader.fill_buf().map_err(failed)?.contains(&0) {
        let message = format!("`{path}` is a binary file of {bytes} bytes; look into it with `shell` or `python`");
        return Err(ToolError::Invalid(message));
    }
    let mut page = Page::new(first_line, max_lines);
    let mut left = MAX_FILE_BYTES;
    while let Some(line) = next_line(&mut reader, &mut left).map_err(failed)? {
        page.add_line(&line);
    }
    page.finish(path)
}

/// A line without its ending, possibly truncated.
struct Line {
    text: Vec<u8>,
    /// Whether the line was truncated.
    is_cut: bool,
}

fn next_line(reader: &mut impl BufRead, left: &mut u64) -> io::Result<Option<Line>> {
    let mut line = Line { text: Vec::new(), is_cut: false };
    let mut is_any = false;
    loop {
        let piece = reader.fill_buf()?;
        if piece.is_empty() || *left == 0 {
            return Ok(is_any.then_some(line));
        }
        is_any = true;
        let end = piece.iter().position(|byte| *byte == b'\n');
        let part = &piece[..end.unwrap_or(piece.len())];
        let kept = part.len().min(MAX_LINE_BYTES - line.text.len());
        line.text.extend_from_slice(&part[..kept]);
        line.is_cut |= kept < part.len();
        let used = end.map_or(piece.len(), |end| end + 1);
        reader.consume(used);
        *left = left.saturating_sub(used as u64);
        if end.is_some() {
            if line.text.last() == Some(&b'\r') {
                line.text.pop();
            }
            return Ok(Some(line));
        }
    }
}

/// The returned part of a file.
struct Page {
    first_line: usize,
    max_lines: usize,
    text: String,
    characters: usize,
    shown: usize,
    total: usize,
    cut_lines: usize,
    is_full: bool,
    is_lossy: bool,
}

impl Page {
    fn new(first_line: usize, max_lines: usize) -> Self {
        let max_lines = max_lines.min(MAX_LINES);
        Self {
            first_line,
            max_lines,
            text: String::new(),
            characters: 0,
            shown: 0,
            total: 0,
            cut_lines: 0,
            is_full: false,
            is_lossy: false,
        }
    }

    fn add_line(&mut self, line: &Line) {
        self.total += 1;
        if self.total < self.first_line || self.is_full {
            return;
        }
        let text = String::from_utf8_lossy(&line.text);
        let characters = self.characters + text.chars().count() + NUMBER_CHARACTERS;
        if self.shown == self.max_lines || (self.shown > 0 && characters > MAX_PAGE_CHARACTERS) {
            self.is_full = true;
            return;
        }
        self.characters = characters;
        // A truncated character is not an encoding error.
        self.is_lossy |= !line.is_cut && matches!(text, std::borrow::Cow::Owned(_));
        let mark = if line.is_cut { " […]" } else { "" };
        let _ = writeln!(self.text, "{:>6}\t{text}{mark}", self.total);
        self.cut_lines += usize::from(line.is_cut);
        self.shown += 1;
    }

    fn finish(mut self, path: &RelativePath) -> Result<ToolOutput, ToolError> {
        if self.total == 0 {
            return Ok(ToolOutput::text(format!("[`{path}` is empty]")));
        }
        if self.shown == 0 {
            return Err(ToolError::Invalid(format!("`{path}` has only {}", format_count(self.total, "line"))));
        }
        let last = self.first_line + self.shown - 1;
        if last < self.total || self.first_line > 1 {
            let (first, total, more) = (self.first_line, self.total, self.total - last);
            let _ = write!(self.text, "[lines {first} to {last} of {total}");
            let _ = match more {
                0 => write!(self.text, "]"),
                more => write!(self.text, "; {more} more: go on with first_line {}]", last + 1),
            };
        }
        if self.cut_lines > 0 {
            let _ = write!(
                self.text,
                "[{} cut at {MAX_LINE_BYTES} bytes; see the rest with `shell` or `python`]",
                format_count(self.cut_lines, "line")
            );
        }
        if self.is_lossy {
            self.text.push_str("[not UTF-8: some characters are replaced by \u{fffd}]");
        }
        Ok(ToolOutput::text(self.text))
    }
}
