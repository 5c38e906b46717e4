//! `search_files`: lines that match a pattern.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::json;

use super::{CALL_LIMIT, Patience, blocking, counted, tool};
use crate::tools::builtin::input::describe;
use crate::tools::tool::{Effect, Tool, ToolCallContext, ToolError, ToolOutput};
use crate::workspaces::{EntryKind, RelativePath, UntrustedSource, Workspace, record_path};

const DEFAULT_RESULTS: usize = 100;
const MAX_RESULTS: usize = 1_000;
const MAX_PATTERN_BYTES: usize = 1_000;
/// Of a compiled pattern: what it may need, and with that how long a byte can take.
const MAX_PATTERN_SIZE: usize = 256 * 1024;
/// Longer files are passed over.
const MAX_FILE_BYTES: u64 = 4 << 20;
const MAX_TOTAL_BYTES: u64 = 256 << 20;
const MAX_FILES: usize = 20_000;
/// The rest of a longer line is not searched.
const MAX_LINE_BYTES: usize = 16 * 1024;
/// Of a line that matches, so much is shown around the match.
const SHOWN_BYTES: usize = 300;
const SHOWN_BEFORE: usize = 100;
const MAX_TEXT_BYTES: usize = 64 * 1024;
/// Not searched unless named: what programs keep there is not what is looked for.
const PASSED_OVER: [&str; 2] = [".git", ".agentd"];

#[derive(Deserialize)]
struct Input {
    pattern: String,
    #[serde(default)]
    path: String,
    max_results: Option<usize>,
}

pub(crate) fn search_files() -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN_BYTES,
                "description": "A regular expression (RE2 syntax, (?i) ignores case), matched line by line"},
            "path": {"type": "string", "description": "A file or folder relative to the workspace; left out: all of it"},
            "max_results": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS, "description": "Left out: 100"},
        },
        "required": ["pattern"],
        "additionalProperties": false,
    });
    let text = "Searches the text files of the workspace for a regular expression. Answers `path:line: text`. \
                Folders named .git and .agentd are searched only when `path` leads there.";
    let description = describe("search_files", text, schema, Effect::Reads, CALL_LIMIT);
    tool(description, |input: Input, context: ToolCallContext| async move {
        let path = RelativePath::parse(&input.path)?;
        let pattern = compile(&input.pattern)?;
        let wanted = input.max_results.unwrap_or(DEFAULT_RESULTS);
        let source = context.untrusted.clone();
        blocking(&context, move |workspace, patience| {
            let mut search = Search {
                workspace,
                pattern,
                patience,
                wanted,
                source,
                found: Vec::new(),
                text_bytes: 0,
                left: Left::default(),
            };
            search.run(&path)?;
            Ok(search.finish())
        })
        .await
    })
}

fn compile(pattern: &str) -> Result<Regex, ToolError> {
    let built = RegexBuilder::new(pattern).size_limit(MAX_PATTERN_SIZE).dfa_size_limit(8 * MAX_PATTERN_SIZE).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            ToolError::Invalid("the pattern is too large; write a simpler one".to_owned())
        }
        error => ToolError::Invalid(format!("the pattern is no regular expression: {error}")),
    })
}

struct Search<'w> {
    workspace: &'w Workspace,
    pattern: Regex,
    patience: &'w Patience,
    wanted: usize,
    source: UntrustedSource,
    found: Vec<String>,
    text_bytes: usize,
    left: Left,
}

/// What was not searched.
#[derive(Default)]
struct Left {
    files: usize,
    bytes: u64,
    too_large: usize,
    unreadable: usize,
    is_cut: bool,
}

impl Search<'_> {
    fn run(&mut self, path: &RelativePath) -> Result<(), ToolError> {
        if let EntryKind::File { .. } = self.workspace.kind(path)? {
            let content = self.workspace.read(path, MAX_FILE_BYTES)?;
            self.search(path, &content);
            return Ok(());
        }
        // The first folder must be there; what goes wrong below is counted.
        let mut folders = VecDeque::new();
        self.folder(self.workspace.list(path)?, &mut folders);
        while let Some(folder) = folders.pop_front() {
            if self.is_over() {
                break;
            }
            match self.workspace.list(&folder) {
                Ok(listing) => self.folder(listing, &mut folders),
                Err(_) => self.left.unreadable += 1,
            }
        }
        Ok(())
    }

    fn folder(&mut self, listing: crate::workspaces::Listing, folders: &mut VecDeque<RelativePath>) {
        self.left.is_cut |= listing.left_out > 0;
        for entry in listing.entries {
            if self.is_over() {
                return;
            }
            match entry.kind {
                EntryKind::Folder if PASSED_OVER.iter().any(|name| entry.path.ends_with(name)) => {}
                EntryKind::Folder if folders.len() == MAX_FILES => self.left.is_cut = true,
                EntryKind::Folder => folders.push_back(entry.path),
                EntryKind::File { bytes, .. } if bytes > MAX_FILE_BYTES => self.left.too_large += 1,
                EntryKind::File { has_many_names: true, .. } => self.left.unreadable += 1,
                EntryKind::File { .. } => match self.workspace.read(&entry.path, MAX_FILE_BYTES) {
                    Ok(content) => self.search(&entry.path, &content),
                    Err(_) => self.left.unreadable += 1,
                },
                // Links lead to what is searched anyway, or nowhere.
                EntryKind::Link { .. } | EntryKind::Other => {}
            }
        }
    }

    fn search(&mut self, path: &RelativePath, content: &[u8]) {
        self.left.files += 1;
        self.left.bytes += content.len() as u64;
        if content.iter().take(8_192).any(|byte| *byte == 0) {
            return;
        }
        // What follows the last line's end is no line.
        let content = content.strip_suffix(b"\n").unwrap_or(content);
        for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
            if self.is_over() {
                return;
            }
            let line = &line[..line.len().min(MAX_LINE_BYTES)];
            let Some(found) = self.pattern.find(line) else { continue };
            let shown = format!("{path}:{}: {}", index + 1, around(line, found.start()));
            record_path(path, &self.source);
            self.text_bytes += shown.len();
            self.found.push(shown);
        }
    }

    fn is_over(&mut self) -> bool {
        let is_full = self.found.len() >= self.wanted || self.text_bytes >= MAX_TEXT_BYTES;
        let is_over =
            is_full || self.left.files >= MAX_FILES || self.left.bytes >= MAX_TOTAL_BYTES || self.patience.is_over();
        self.left.is_cut |= is_over;
        is_over
    }

    fn finish(self) -> ToolOutput {
        let mut text = if self.found.is_empty() { "[nothing matches]".to_owned() } else { self.found.join("\n") };
        if self.left.is_cut {
            let reason = if self.found.len() >= self.wanted || self.text_bytes >= MAX_TEXT_BYTES {
                "there may be more; name a folder or a narrower pattern"
            } else {
                "not everything was searched; name a folder"
            };
            let _ = write!(
                text,
                "\n[{} in {}; {reason}]",
                counted(self.found.len(), "line"),
                counted(self.left.files, "file")
            );
        }
        if self.left.too_large > 0 {
            let _ = write!(
                text,
                "\n[{} of more than {MAX_FILE_BYTES} bytes passed over]",
                counted(self.left.too_large, "file")
            );
        }
        if self.left.unreadable > 0 {
            let _ = write!(
                text,
                "\n[{} could not be read or may lie outside]",
                match self.left.unreadable {
                    1 => "1 entry".to_owned(),
                    many => format!("{many} entries"),
                }
            );
        }
        ToolOutput::text(text)
    }
}

/// The part of a line around a match.
fn around(line: &[u8], place: usize) -> String {
    let from = if line.len() <= SHOWN_BYTES { 0 } else { place.saturating_sub(SHOWN_BEFORE) };
    let to = line.len().min(from + SHOWN_BYTES);
    let text = String::from_utf8_lossy(&line[from..to]);
    let text: String = text.trim_end_matches('\r').chars().filter(|c| *c == '\t' || !c.is_control()).collect();
    format!("{}{text}{}", if from > 0 { "…" } else { "" }, if to < line.len() { "…" } else { "" })
}
