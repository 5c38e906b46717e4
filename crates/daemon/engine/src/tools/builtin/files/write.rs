//! The tool `write_file`: writes a file atomically.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::{CALL_LIMIT, Files, blocking, tool};
use crate::tools::builtin::input::describe;
use crate::tools::tool::{Effect, Tool, ToolCallContext, ToolError, ToolOutput};
use crate::workspaces::RelativePath;

pub(super) const MAX_BYTES: usize = 8 << 20;

#[derive(Deserialize)]
struct Input {
    path: String,
    content: String,
}

pub(crate) fn write_file(files: &Files) -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string",
                "description": "Path of the file, relative to the workspace; folders on the way are made"},
            "content": {"type": "string", "description": "The whole of the file"},
        },
        "required": ["path", "content"],
        "additionalProperties": false,
    });
    let text = "Writes a file of the workspace, in place of one that is there.";
    let description = describe("write_file", text, schema, Effect::Acts, CALL_LIMIT);
    let files = files.clone();
    tool(description, move |input: Input, context: ToolCallContext| {
        let files = files.clone();
        async move {
            let path = RelativePath::parse_file(&input.path)?;
            if input.content.len() > MAX_BYTES {
                return Err(ToolError::Invalid(format!("the content is longer than {MAX_BYTES} bytes")));
            }
            let _lock = files.lock(&context, &path).await;
            let (mark, shown, bytes, quota) = (files.mark(), path.to_string(), input.content.len(), files.quota());
            let written = blocking(&context, move |workspace, _| {
                Ok(workspace.write(&path, input.content.as_bytes(), &mark, &quota)?)
            })
            .await?;
            Ok(ToolOutput::json(json!({"path": shown, "bytes": bytes, "created": written.is_new})))
        }
    })
}
