//! Tests of the file tools, called like the engine calls them.

mod attacks;
mod races;
mod use_cases;

use std::path::Path;
use std::sync::Arc;

use agentd_base::{Entropy, Timestamp};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Files, edit_file, list_files, read_file, search_files, write_file};
use crate::agents::{Agent, AgentId};
use crate::tools::tool::{Tool, ToolCallContext, ToolError};
use crate::workspaces::{UntrustedSource, WorkspaceQuota};

/// A workspace, a folder next to it, and the tools.
struct Bench {
    root: tempfile::TempDir,
    tools: Vec<Arc<dyn Tool>>,
}

impl Bench {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("workspace")).unwrap();
        std::fs::create_dir(root.path().join("outside")).unwrap();
        let files = Files::new(
            Entropy::seeded(1),
            WorkspaceQuota::new(|| agentd_sandbox::Policy::default().workspace_bounds()),
        );
        let tools = vec![read_file(), write_file(&files), edit_file(&files), list_files(), search_files()];
        Self { root, tools }
    }

    fn inside(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join("workspace").join(path)
    }

    fn outside(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join("outside").join(path)
    }

    /// Returns the text that a model would read, or the error message.
    async fn call(&self, tool: &str, input: Value) -> Result<String, String> {
        let tool = self.tools.iter().find(|known| known.description().name == tool).unwrap();
        let input = tool.description().input_schema.validate(&input).await?;
        let done = tool.call(input, context(&self.root.path().join("workspace"))).await;
        done.map(|output| output.for_model()).map_err(|error: ToolError| error.to_string())
    }
}

fn context(workspace: &Path) -> ToolCallContext {
    let now = Timestamp::from_micros(0);
    let agent = Agent {
        id: AgentId::from("agent_1"),
        svc_name: "scout".to_owned(),
        user_name: "Ada".to_owned(),
        archetypes: vec!["assistant".to_owned()],
        custom_archetype: None,
        evolution_choice: crate::agents::EvolutionChoice::Off,
        profile: crate::agents::AgentProfile::default(),
        answers: Vec::new(),
        created_at: now,
        updated_at: now,
    };
    ToolCallContext {
        agent: Arc::new(agent),
        workspace: workspace.to_path_buf(),
        session_id: "sess_1".to_owned(),
        conversation_id: None,
        call_id: "call_1".to_owned(),
        cancelled: CancellationToken::new(),
        untrusted: UntrustedSource::default(),
        approved: None,
        has_untrusted_text: false,
    }
}

/// Returns one call of each tool with this path.
fn calls(path: &str) -> [(&'static str, Value); 5] {
    [
        ("read_file", json!({"path": path})),
        ("write_file", json!({"path": path, "content": "evil"})),
        ("edit_file", json!({"path": path, "old_text": "secret", "new_text": "evil"})),
        ("list_files", json!({"path": path})),
        ("search_files", json!({"path": path, "pattern": "."})),
    ]
}
