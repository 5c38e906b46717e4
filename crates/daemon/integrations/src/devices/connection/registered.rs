//! Validates and stores the tools that a device registers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use agentd_engine::tools::{Effect, InputSchema, ToolDescription};

use crate::devices::model::{Device, MAX_TOOL_NAME, ToolSpec, is_tool_name};

/// Device tools may run for long, but a turn must not wait indefinitely.
const CALL_TIMEOUT: Duration = Duration::from_secs(300);

/// A tool registered by a device.
#[derive(Debug)]
pub(crate) struct RegisteredTool {
    /// The name that the device uses for the tool.
    pub(super) name: String,
    pub(super) description: ToolDescription,
}

/// Validates the tools that a device registers; either all of them are accepted or none.
///
/// # Errors
/// A message for the developer of the device.
pub(crate) fn register(device: &Device, specs: Vec<ToolSpec>) -> Result<Arc<[Arc<RegisteredTool>]>, String> {
    let mut names = HashSet::new();
    let mut tools = Vec::with_capacity(specs.len());
    for ToolSpec { name, description, input_schema } in specs {
        if !is_tool_name(&name) {
            let truncated: String = name.chars().take(MAX_TOOL_NAME + 8).collect();
            return Err(format!(
                "`{truncated}` is not a valid tool name: use 1 to {MAX_TOOL_NAME} of a-z, A-Z, 0-9, _ and -"
            ));
        }
        if !names.insert(name.clone()) {
            return Err(format!("tool `{name}` is listed twice"));
        }
        let input_schema =
            InputSchema::new(input_schema).map_err(|problem| format!("the input_schema of `{name}` {problem}"))?;
        let description = ToolDescription {
            name: device.tool_name(&name),
            description: description.trim().to_owned(),
            input_schema,
            effect: Effect::Acts,
            time_limit: CALL_TIMEOUT,
        };
        tools.push(Arc::new(RegisteredTool { name, description }));
    }
    Ok(tools.into())
}
