//! The tool `edit_file`: replaces text in a file.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::write::MAX_BYTES;
use super::{CALL_LIMIT, Files, blocking, tool};
use crate::tools::builtin::input::describe;
use crate::tools::tool::{Effect, Tool, ToolCallContext, ToolError, ToolOutput};
use crate::workspaces::{RelativePath, Workspace, WorkspaceQuota};

/// Maximum number of positions listed for text that is not unique.
const MAX_LISTED_POSITIONS: usize = 5;

#[derive(Deserialize)]
struct Input {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

pub(crate) fn edit_file(files: &Files) -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Path of the file, relative to the workspace"},
            "old_text": {"type": "string", "minLength": 1, "description": "To be replaced; exactly as in the file, without line numbers"},
            "new_text": {"type": "string", "description": "What takes its place"},
            "replace_all": {"type": "boolean", "description": "Every occurrence; otherwise there must be one alone"},
        },
        "required": ["path", "old_text", "new_text"],
        "additionalProperties": false,
    });
    let text = "Replaces a text in a file of the workspace by another.";
    let description = describe("edit_file", text, schema, Effect::Acts, CALL_LIMIT);
    let files = files.clone();
    tool(description, move |input: Input, context: ToolCallContext| {
        let files = files.clone();
        async move {
            let path = RelativePath::parse_file(&input.path)?;
            let _lock = files.lock(&context, &path).await;
            let (mark, shown, quota) = (files.mark(), path.to_string(), files.quota());
            let replaced =
                blocking(&context, move |workspace, _| edit(workspace, &path, &input, &mark, &quota)).await?;
            Ok(ToolOutput::json(json!({"path": shown, "replacements": replaced})))
        }
    })
}

fn edit(
    workspace: &Workspace,
    path: &RelativePath,
    input: &Input,
    mark: &str,
    quota: &WorkspaceQuota,
) -> Result<usize, ToolError> {
    let invalid = |message: String| Err(ToolError::Invalid(message));
    if input.old_text == input.new_text {
        return invalid("old_text and new_text are the same".to_owned());
    }
    let content = workspace.read(path, MAX_BYTES as u64)?;
    let Ok(content) = String::from_utf8(content) else {
        return invalid(format!("`{path}` is not UTF-8 text; edit it with `shell` or `python`"));
    };
    let (old_text, new_text) = with_line_endings_of(&content, input);
    let positions: Vec<usize> = content.match_indices(&old_text).map(|(position, _)| position).collect();
    match positions.len() {
        0 => {
            return invalid(format!("old_text does not occur in `{path}`; read the file and copy the text exactly"));
        }
        1 => {}
        _ if input.replace_all => {}
        count => {
            let lines = positions
                .iter()
                .take(MAX_LISTED_POSITIONS)
                .map(|position| line_number(&content, *position).to_string());
            let lines = lines.collect::<Vec<_>>().join(", ");
            return invalid(format!(
                "old_text occurs {count} times in `{path}` (first in lines {lines}); include more of the \
                 surrounding text, or set replace_all"
            ));
        }
    }
    let grown = positions.len().saturating_mul(new_text.len());
    if content.len().saturating_sub(positions.len() * old_text.len()).saturating_add(grown) > MAX_BYTES {
        return invalid(format!("the file would be longer than {MAX_BYTES} bytes"));
    }
    workspace.write(path, content.replace(&old_text, &new_text).as_bytes(), mark, quota)?;
    Ok(positions.len())
}

/// Returns the old and the new text with the line endings of the file. Models read lines without their endings and
/// write line feeds only, also for files with CRLF.
fn with_line_endings_of(content: &str, input: &Input) -> (String, String) {
    if content.contains(&input.old_text) || !content.contains("\r\n") {
        return (input.old_text.clone(), input.new_text.clone());
    }
    let with_returns = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    (with_returns(&input.old_text), with_returns(&input.new_text))
}

fn line_number(content: &str, position: usize) -> usize {
    content.as_bytes()[..position].iter().filter(|byte| **byte == b'\n').count() + 1
}
