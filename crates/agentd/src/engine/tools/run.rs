//! Runs one call of a tool, whatever becomes of it.

use std::panic::AssertUnwindSafe;

use agentd_base::visible::{strip_tags, strip_tags_in};
use futures_util::FutureExt;
use serde_json::{Map, Value};

use super::cut::{outcome_of, too_long_to_read};
use crate::engine::model::{Outcome, shown_source};
use crate::skills::{Author, Skills, Tool, ToolCallContext, ToolError, UntrustedSource};

/// One call, within its time limit; a panic is a failure of the tool alone.
pub(in crate::engine) async fn run_tool(
    skills: &Skills,
    tool: &dyn Tool,
    input: Map<String, Value>,
    context: ToolCallContext,
) -> Outcome {
    let limit = tool.description().time_limit;
    let cancelled = context.cancelled.clone();
    let (workspace, call_id) = (context.workspace.clone(), context.call_id.clone());
    let read = context.untrusted.clone();
    let call = AssertUnwindSafe(tool.call(input, context)).catch_unwind();
    let result = match tokio::time::timeout(limit, call).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(ToolError::Failed("the tool broke down; the daemon's log says more".to_owned())),
        Err(_) => {
            cancelled.cancel();
            Err(ToolError::TimedOut(limit))
        }
    };
    let source = source_of(tool, &read);
    let long = result.as_ref().ok().and_then(too_long_to_read);
    // Hidden characters may carry text that only a model reads.
    let long = long.map(|text| if source.is_some() { strip_tags(&text).into_owned() } else { text.into_owned() });
    let kept = match long {
        Some(text) => match skills.keep_output(&workspace, &call_id, &text, source.is_none()).await {
            Ok(kept) => Some(kept),
            Err(error) => {
                tracing::warn!(call = call_id, %error, "a long result is not kept whole");
                None
            }
        },
        None => None,
    };
    let mut outcome = outcome_of(result, kept).with_source(source);
    if outcome.untrusted_source.is_some() {
        strip_tags_in(&mut outcome.output);
    }
    outcome
}

/// Where the text of a tool's results and errors comes from, where others write it.
pub(in crate::engine) fn source_of(tool: &dyn Tool, read: &UntrustedSource) -> Option<String> {
    let name = &tool.description().name;
    let source = match (read.get(), tool.output_author()) {
        (Some(read), _) => format!("{read} ({name})"),
        (None, Author::Other(author)) => format!("{author} ({name})"),
        (None, Author::Trusted) => return None,
    };
    Some(shown_source(&source))
}
