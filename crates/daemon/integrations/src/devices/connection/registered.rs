//! Tools as their device registered them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use agentd_engine::tools::{Effect, InputSchema, ToolDescription};

use crate::devices::model::{Device, MAX_TOOL_NAME, ToolSpec, is_tool_name};

/// A device may need long, but a turn does not wait for ever.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// A tool as its device registered it.
#[derive(Debug)]
pub(crate) struct RegisteredTool {
    /// As the device calls it.
    pub(super) name: String,
    pub(super) description: ToolDescription,
}

/// Checks what a device wants to register: all of it counts, or nothing.
///
/// # Errors
/// A sentence for the device's maker.
pub(crate) fn register(device: &Device, specs: Vec<ToolSpec>) -> Result<Arc<[Arc<RegisteredTool>]>, String> {
    let mut names = HashSet::new();
    let mut tools = Vec::with_capacity(specs.len());
    for ToolSpec { name, description, input_schema } in specs {
        if !is_tool_name(&name) {
            let shown: String = name.chars().take(MAX_TOOL_NAME + 8).collect();
            return Err(format!("`{shown}` is no name of a tool: 1 to {MAX_TOOL_NAME} of a-z, A-Z, 0-9, _ and -"));
        }
        if !names.insert(name.clone()) {
            return Err(format!("the tool `{name}` stands twice"));
        }
        let input_schema =
            InputSchema::new(input_schema).map_err(|problem| format!("the input_schema of `{name}` {problem}"))?;
        let description = ToolDescription {
            name: device.tool_name(&name),
            description: description.trim().to_owned(),
            input_schema,
            effect: Effect::Acts,
            time_limit: TIME_LIMIT,
        };
        tools.push(Arc::new(RegisteredTool { name, description }));
    }
    Ok(tools.into())
}
