//! Validation of agents restored from an archive. Names become folders and ids become names in the trash, so both must
//! have the form that this program generates.

use agentd_core::runtime::ValidateRestored;
use agentd_store::{Read, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::model::AgentId;
use super::model::Purge;
use super::store;
use crate::workspaces::is_workspace_name;

/// Validates restored agents with the rules for new agents.
#[derive(Debug)]
pub struct ValidateAgents;

impl ValidateRestored for ValidateAgents {
    fn validate<'t>(&'t self, tx: &'t mut Tx) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>> {
        find_problem(tx).boxed_local()
    }
}

async fn find_problem(read: &mut Read) -> Result<Option<String>, StoreError> {
    for (id, svc_name) in store::list_names(read).await? {
        if let Some(problem) = check_names(&id, &svc_name) {
            return Ok(Some(problem));
        }
    }
    for payload in store::list_purges(read).await? {
        let Ok(purge) = serde_json::from_str::<Purge>(&payload) else {
            return Ok(Some("the purge record of a deleted agent is not valid".to_owned()));
        };
        if let Some(problem) = check_names(&purge.agent_id, &purge.svc_name) {
            return Ok(Some(problem));
        }
    }
    for agent in store::list_agents(read).await? {
        let svc_name = agent.svc_name.clone();
        if let Err(problems) = agent.into_request().validated() {
            let found: Vec<String> =
                problems.into_iter().map(|found| format!("{} {}", found.field, found.message)).collect();
            return Ok(Some(format!("the agent `{svc_name}` is not valid: {}", found.join("; "))));
        }
    }
    Ok(None)
}

fn check_names(id: &AgentId, svc_name: &str) -> Option<String> {
    let escaped = |text: &str| text.chars().take(80).collect::<String>().escape_debug().to_string();
    if !AgentId::is_well_formed(id.as_str()) {
        return Some(format!("`{}` is not a valid agent id", escaped(id.as_str())));
    }
    (!is_workspace_name(svc_name)).then(|| format!("`{}` is not a valid agent name", escaped(svc_name)))
}
