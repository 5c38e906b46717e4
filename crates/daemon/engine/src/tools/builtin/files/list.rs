//! The tool `list_files`: lists the contents of a folder.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::{CALL_LIMIT, Deadline, blocking, tool};
use crate::tools::builtin::input::describe;
use crate::tools::tool::{Effect, Tool, ToolCallContext, ToolError, ToolOutput};
use crate::workspaces::{Entry, EntryKind, RelativePath, UntrustedSource, Workspace, record_path};

const MAX_ENTRIES: usize = 1_000;
const DEFAULT_DEPTH: usize = 2;
const MAX_DEPTH: usize = 16;

#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    path: String,
    depth: Option<usize>,
}

pub(crate) fn list_files() -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "A folder relative to the workspace; left out: the workspace itself"},
            "depth": {"type": "integer", "minimum": 1, "maximum": MAX_DEPTH, "description": "How many levels; left out: 2"},
        },
        "additionalProperties": false,
    });
    let text = "Lists the files and folders of the workspace, with the sizes of the files.";
    let description = describe("list_files", text, schema, Effect::Reads, CALL_LIMIT);
    tool(description, |input: Input, context: ToolCallContext| async move {
        let path = RelativePath::parse(&input.path)?;
        let depth = input.depth.unwrap_or(DEFAULT_DEPTH);
        let source = context.untrusted.clone();
        blocking(&context, move |workspace, deadline| list(workspace, &path, depth, deadline, &source)).await
    })
}

fn list(
    workspace: &Workspace,
    path: &RelativePath,
    depth: usize,
    deadline: &Deadline,
    source: &UntrustedSource,
) -> Result<ToolOutput, ToolError> {
    let mut found: Vec<Entry> = Vec::new();
    let mut is_cut = false;
    // Breadth-first, so that upper levels are complete if the limit is reached.
    let mut folders = VecDeque::from([(path.clone(), 1)]);
    while let Some((folder, level)) = folders.pop_front() {
        let listing = match workspace.list(&folder) {
            Ok(listing) => listing,
            // Deleted or unreadable; the rest is still listed.
            Err(_) if level > 1 => {
                is_cut = true;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        is_cut |= listing.left_out > 0;
        for entry in listing.entries {
            if found.len() == MAX_ENTRIES || deadline.is_over() {
                is_cut = true;
                folders.clear();
                break;
            }
            if entry.kind == EntryKind::Folder && level < depth {
                folders.push_back((entry.path.clone(), level + 1));
            }
            record_path(&entry.path, source);
            found.push(entry);
        }
    }
    if found.is_empty() {
        return Ok(ToolOutput::text(format!("[`{path}` is empty]")));
    }
    found.sort_by_cached_key(|entry| entry.path.to_string().replace('/', "\0"));
    let mut lines: Vec<String> = found.iter().map(format_entry).collect();
    if is_cut {
        lines.push("[not everything is shown; list a folder below, or fewer levels]".to_owned());
    }
    Ok(ToolOutput::text(lines.join("\n")))
}

fn format_entry(entry: &Entry) -> String {
    let path = &entry.path;
    match &entry.kind {
        EntryKind::Folder => format!("{path}/"),
        EntryKind::File { bytes, .. } => format!("{path}  ({bytes} bytes)"),
        EntryKind::Link { target } => format!("{path} -> {target}  (symbolic link)"),
        EntryKind::Other => format!("{path}  (no file)"),
    }
}
