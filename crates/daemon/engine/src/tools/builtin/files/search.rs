//! The tool `search_files`: finds lines that match a pattern.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::json;

use super::{CALL_LIMIT, Deadline, blocking, format_count, tool};
use crate::tools::builtin::input::describe;
use crate::tools::tool::{Effect, Tool, ToolCallContext, ToolError, ToolOutput};
use crate::workspaces::{EntryKind, RelativePath, UntrustedSource, Workspace, record_path};

const DEFAULT_RESULTS: usize = 100;
const MAX_RESULTS: usize = 1_000;
const MAX_PATTERN_BYTES: usize = 1_000;
/// Maximum size of a compiled pattern; it also bounds the time per byte.
const MAX_PATTERN_SIZE: usize = 256 * 1024;
/// Maximum size of a file; larger files are skipped.
const MAX_FILE_BYTES: u64 = 4 << 20;
const MAX_TOTAL_BYTES: u64 = 256 << 20;
const MAX_FILES: usize = 20_000;
/// Maximum number of bytes of a line that are searched.
const MAX_LINE_BYTES: usize = 16 * 1024;
/// Maximum length of the excerpt around a match.
const EXCERPT_BYTES: usize = 300;
const EXCERPT_BYTES_BEFORE_MATCH: usize = 100;
const MAX_TEXT_BYTES: usize = 64 * 1024;
/// Folders that are only searched if `path` leads into them; they contain data of programs.
const SKIPPED_FOLDERS: [&str; 2] = [".git", ".agentd"];

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
        blocking(&context, move |workspace, deadline| {
            let mut search = Search {
                workspace,
                pattern,
                deadline,
                wanted,
                source,
                found: Vec::new(),
                text_bytes: 0,
                stats: SearchStats::default(),
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
        error => ToolError::Invalid(format!("the pattern is not a valid regular expression: {error}")),
    })
}

struct Search<'w> {
    workspace: &'w Workspace,
    pattern: Regex,
    deadline: &'w Deadline,
    wanted: usize,
    source: UntrustedSource,
    found: Vec<String>,
    text_bytes: usize,
    stats: SearchStats,
}

/// Statistics of the search, including what was skipped.
#[derive(Default)]
struct SearchStats {
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
        // The first folder must exist; errors below it are counted.
        let mut folders = VecDeque::new();
        self.enqueue_folder(self.workspace.list(path)?, &mut folders);
        while let Some(folder) = folders.pop_front() {
            if self.is_over() {
                break;
            }
            match self.workspace.list(&folder) {
                Ok(listing) => self.enqueue_folder(listing, &mut folders),
                Err(_) => self.stats.unreadable += 1,
            }
        }
        Ok(())
    }

    fn enqueue_folder(&mut self, listing: crate::workspaces::Listing, folders: &mut VecDeque<RelativePath>) {
        self.stats.is_cut |= listing.left_out > 0;
        for entry in listing.entries {
            if self.is_over() {
                return;
            }
            match entry.kind {
                EntryKind::Folder if SKIPPED_FOLDERS.iter().any(|name| entry.path.ends_with(name)) => {}
                EntryKind::Folder if folders.len() == MAX_FILES => self.stats.is_cut = true,
                EntryKind::Folder => folders.push_back(entry.path),
                EntryKind::File { bytes, .. } if bytes > MAX_FILE_BYTES => self.stats.too_large += 1,
                EntryKind::File { has_many_names: true, .. } => self.stats.unreadable += 1,
                EntryKind::File { .. } => match self.workspace.read(&entry.path, MAX_FILE_BYTES) {
                    Ok(content) => self.search(&entry.path, &content),
                    Err(_) => self.stats.unreadable += 1,
                },
                // Links lead to files that are searched anyway, or out of the workspace.
                EntryKind::Link { .. } | EntryKind::Other => {}
            }
        }
    }

    fn search(&mut self, path: &RelativePath, content: &[u8]) {
        self.stats.files += 1;
        self.stats.bytes += content.len() as u64;
        if content.iter().take(8_192).any(|byte| *byte == 0) {
            return;
        }
        // No line follows the final line feed.
        let content = content.strip_suffix(b"\n").unwrap_or(content);
        for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
            if self.is_over() {
                return;
            }
            let line = &line[..line.len().min(MAX_LINE_BYTES)];
            let Some(found) = self.pattern.find(line) else { continue };
            let shown = format!("{path}:{}: {}", index + 1, excerpt(line, found.start()));
            record_path(path, &self.source);
            self.text_bytes += shown.len();
            self.found.push(shown);
        }
    }

    fn is_over(&mut self) -> bool {
        let is_full = self.found.len() >= self.wanted || self.text_bytes >= MAX_TEXT_BYTES;
        let is_over =
            is_full || self.stats.files >= MAX_FILES || self.stats.bytes >= MAX_TOTAL_BYTES || self.deadline.is_over();
        self.stats.is_cut |= is_over;
        is_over
    }

    fn finish(self) -> ToolOutput {
        let mut text = if self.found.is_empty() { "[nothing matches]".to_owned() } else { self.found.join("\n") };
        if self.stats.is_cut {
            let reason = if self.found.len() >= self.wanted || self.text_bytes >= MAX_TEXT_BYTES {
                "there may be more; name a folder or a narrower pattern"
            } else {
                "not everything was searched; name a folder"
            };
            let _ = write!(
                text,
                "\n[{} in {}; {reason}]",
                format_count(self.found.len(), "line"),
                format_count(self.stats.files, "file")
            );
        }
        if self.stats.too_large > 0 {
            let _ = write!(
                text,
                "\n[{} of more than {MAX_FILE_BYTES} bytes passed over]",
                format_count(self.stats.too_large, "file")
            );
        }
        if self.stats.unreadable > 0 {
            let _ = write!(
                text,
                "\n[{} could not be read or may lie outside]",
                match self.stats.unreadable {
                    1 => "1 entry".to_owned(),
                    many => format!("{many} entries"),
                }
            );
        }
        ToolOutput::text(text)
    }
}

/// Returns the part of a line around a match.
fn excerpt(line: &[u8], match_start: usize) -> String {
    let from = if line.len() <= EXCERPT_BYTES { 0 } else { match_start.saturating_sub(EXCERPT_BYTES_BEFORE_MATCH) };
    let to = line.len().min(from + EXCERPT_BYTES);
    let text = String::from_utf8_lossy(&line[from..to]);
    let text: String = text.trim_end_matches('\r').chars().filter(|c| *c == '\t' || !c.is_control()).collect();
    format!("{}{text}{}", if from > 0 { "…" } else { "" }, if to < line.len() { "…" } else { "" })
}
