//! Creating, changing and deleting hooks.

use std::collections::HashMap;

use agentd_base::FieldProblem;
use agentd_core::vault::{Vault, write_url_secrets};
use agentd_engine::agents::{AgentDataOwner, AgentId, Agents};
use agentd_store::{Recorder, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::Hooks;
use crate::hooks::error::HookError;
use crate::hooks::model::{
    Action, BuiltinAction, BundledHook, CODE_SECRET_PREFIX, HEADER_SECRET_PREFIX, HOOK_DELETED, Hook, HookChange,
    HookId, HookType, MAX_HOOKS, SECRET, SecretWrite, SecretWrites, secret_scope,
};
use crate::hooks::store::{self, deliveries, executions, figures, queue};
use crate::notify::Target;

/// Maximum number of deliveries and executions closed in the deletion's transaction. The purge worker closes the rest.
const CLOSE_BATCH_SIZE: u32 = 500;

impl Hooks {
    /// Returns all hooks, oldest first.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn list(&self) -> Result<Vec<Hook>, HookError> {
        let mut read = self.db().read().await?;
        let database = store::find_version(&mut read).await?.database;
        Ok(store::list_hooks(&mut read, &database).await?)
    }

    /// Returns a hook.
    ///
    /// # Errors
    /// `NotFound`, or the database is unavailable.
    pub async fn get(&self, id: &HookId) -> Result<Hook, HookError> {
        let found = store::find_hook(&mut self.db().read().await?, id).await?;
        found.ok_or_else(|| HookError::not_found(id.as_str()))
    }

    /// Creates a hook. It receives events that occur after its creation.
    ///
    /// # Errors
    /// `Invalid` with every invalid field, `TooMany`, or the database is unavailable.
    pub async fn create(
        &self,
        hook_type: HookType,
        wanted: HookChange,
        recorder: Recorder<Hook>,
    ) -> Result<Hook, HookError> {
        let agents = self.agents_by_name().await?;
        let context = self.context();
        let mut hook = Hook::empty(HookId::generate(&context.ids), hook_type, context.clock.now());
        let invalid = |problems| HookError::Invalid { problems };
        let secrets = wanted.apply(&mut hook, |name| agents.get(name).cloned()).map_err(invalid)?;
        self.check_address(&hook, None)?;
        require_named_agent(&hook, &agents)?;
        let (vault, agents) = (self.dependencies().settings.vault().clone(), self.dependencies().agents.clone());
        let create = async move |tx: &mut Tx| {
            if store::count_hooks(tx).await? >= MAX_HOOKS {
                return Err(HookError::TooMany);
            }
            require_called_hook(tx, &hook).await?;
            store::insert_hook(tx, &hook).await?;
            write_secrets(tx, &vault, &hook, &secrets).await?;
            require_agent(tx, &agents, &hook).await?;
            recorder.record(tx, &hook).await?;
            Ok(hook.clone())
        };
        self.db().write(create).await
    }

    /// Validates a change as if it created a new hook, and returns the invalid fields.
    pub(crate) async fn problems(&self, hook_type: HookType, wanted: HookChange) -> Vec<FieldProblem> {
        let Ok(agents) = self.agents_by_name().await else { return Vec::new() };
        let mut hook = Hook::empty(HookId::from("hook"), hook_type, self.context().clock.now());
        let problems = wanted.apply(&mut hook, |name| agents.get(name).cloned()).err().unwrap_or_default();
        match self.check_address(&hook, None) {
            Err(HookError::Invalid { problems: more }) => problems.into_iter().chain(more).collect(),
            _ => problems,
        }
    }

    /// Creates a hook from a bundled one.
    ///
    /// # Errors
    /// `NoSuchBundled`, or an error of [`Self::create`].
    pub async fn install(
        &self,
        bundled: &str,
        wanted: HookChange,
        recorder: Recorder<Hook>,
    ) -> Result<Hook, HookError> {
        let bundled = BundledHook::find(bundled)
            .ok_or_else(|| HookError::NoSuchBundled { id: bundled.chars().take(80).collect() })?;
        self.create(bundled.hook_type, bundled.change(wanted), recorder).await
    }

    /// Changes a hook. A new event type, or enabling the hook, makes it receive events from this moment.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` with every invalid field, or the database is unavailable.
    pub async fn update(&self, id: HookId, wanted: HookChange) -> Result<Hook, HookError> {
        let agents = self.agents_by_name().await?;
        let (vault, here) = (self.dependencies().settings.vault().clone(), self.clone());
        let update = async move |tx: &mut Tx| {
            let mut hook = store::find_hook(tx, &id).await?.ok_or_else(|| HookError::not_found(id.as_str()))?;
            let before = (hook.event_type.clone(), hook.enabled);
            let target_before = hook.target().cloned();
            let changes_config = wanted.config.is_some();
            let invalid = |problems| HookError::Invalid { problems };
            let secrets = wanted.clone().apply(&mut hook, |name| agents.get(name).cloned()).map_err(invalid)?;
            if changes_config {
                here.check_address(&hook, target_before.as_ref())?;
                require_named_agent(&hook, &agents)?;
                require_called_hook(tx, &hook).await?;
                // The receiver may have changed.
                queue::close_circuit(tx, &hook.id).await?;
            }
            hook.updated_at = tx.clock().now();
            let resets_position = before.0 != hook.event_type || (hook.enabled && !before.1);
            store::update_hook(tx, &hook, resets_position).await?;
            write_secrets(tx, &vault, &hook, &secrets).await?;
            require_agent(tx, &here.dependencies().agents, &hook).await?;
            Ok::<_, HookError>(hook)
        };
        let hook = self.db().write(update).await?;
        self.wake_queues();
        Ok(hook)
    }

    /// Enables a disabled hook, or disables an enabled one.
    ///
    /// # Errors
    /// `NotFound`, or the database is unavailable.
    pub async fn toggle(&self, id: HookId) -> Result<Hook, HookError> {
        let toggle = async move |tx: &mut Tx| {
            let mut hook = store::find_hook(tx, &id).await?.ok_or_else(|| HookError::not_found(id.as_str()))?;
            hook.set_enabled(!hook.enabled);
            hook.updated_at = tx.clock().now();
            store::update_hook(tx, &hook, hook.enabled).await?;
            if hook.enabled {
                queue::permit_probe(tx, &hook.id).await?;
            }
            Ok::<_, HookError>(hook)
        };
        let hook = self.db().write(toggle).await?;
        self.wake_queues();
        Ok(hook)
    }

    /// Deletes a hook and closes its pending work.
    ///
    /// # Errors
    /// `NotFound`, or the database is unavailable.
    pub async fn delete(&self, id: HookId) -> Result<(), HookError> {
        let vault = self.dependencies().settings.vault().clone();
        let delete = async move |tx: &mut Tx| {
            if hide(tx, &vault, &id).await? { Ok(()) } else { Err(HookError::not_found(id.as_str())) }
        };
        self.db().write(delete).await
    }

    async fn agents_by_name(&self) -> Result<HashMap<String, AgentId>, HookError> {
        let agents = self.dependencies().agents.list().await?;
        Ok(agents.iter().map(|agent| (agent.svc_name.clone(), agent.id.clone())).collect())
    }

    /// Rejects an address that is known to be unreachable without a network request. An unchanged target (`before`) is
    /// accepted, because its platform may have been disabled since.
    fn check_address(&self, hook: &Hook, before: Option<&Target>) -> Result<(), HookError> {
        if let Action::Builtin(BuiltinAction::SendToChannel { target, .. }) = &hook.action
            && Some(target) != before
            && let Some(fault) = self.dependencies().notify.target_problem(target)
        {
            return Err(bad_config("channel", fault));
        }
        let (field, url) = match &hook.action {
            Action::Http(http) => ("url", &http.url),
            Action::Builtin(BuiltinAction::SendToChannel { target: Target::Webhook(url), .. }) => ("channel", url),
            _ => return Ok(()),
        };
        self.check_url(url).map_err(|message| bad_config(field, message))
    }
}

fn bad_config(field: &str, message: String) -> HookError {
    HookError::Invalid { problems: vec![FieldProblem { field: format!("config.{field}"), message }] }
}

/// Checks that the agent named by a built-in action exists. `agents` maps names to ids.
fn require_named_agent(hook: &Hook, agents: &HashMap<String, AgentId>) -> Result<(), HookError> {
    let (Action::Builtin(BuiltinAction::StartAgent { agent, .. })
    | Action::Builtin(BuiltinAction::StoreMemory { agent: Some(agent), .. })) = &hook.action
    else {
        return Ok(());
    };
    if agents.contains_key(agent) || agents.values().any(|id| id.as_str() == agent) {
        return Ok(());
    }
    Err(bad_config("agent", "names an unknown agent; list agents with GET /api/agents".to_owned()))
}

/// Checks that the hook named by a `call_hook` action exists.
async fn require_called_hook(tx: &mut Tx, hook: &Hook) -> Result<(), HookError> {
    if let Action::Builtin(BuiltinAction::CallHook { hook_id }) = &hook.action
        && store::find_hook(tx, hook_id).await?.is_none()
    {
        return Err(bad_config("hook_id", "names an unknown hook; list hooks with GET /api/hooks".to_owned()));
    }
    Ok(())
}

/// Checks in the transaction that the agent of the scope was not deleted concurrently.
async fn require_agent(tx: &mut Tx, agents: &Agents, hook: &Hook) -> Result<(), HookError> {
    if let Some(agent) = &hook.agent_id
        && !agents.is_alive(tx, agent).await?
    {
        let message = "names an unknown agent; list agents with GET /api/agents".to_owned();
        return Err(HookError::Invalid { problems: vec![FieldProblem { field: "scope".to_owned(), message }] });
    }
    Ok(())
}

async fn write_secrets(tx: &mut Tx, vault: &Vault, hook: &Hook, writes: &SecretWrites) -> Result<(), StoreError> {
    let scope = secret_scope(&hook.id);
    match &writes.secret {
        SecretWrite::Keep => {}
        SecretWrite::Clear => vault.clear(tx, &scope, SECRET).await?,
        SecretWrite::Put(secret) => vault.put(tx, &scope, SECRET, secret).await?,
    }
    for (header, value) in &writes.headers {
        vault.put(tx, &scope, &format!("{HEADER_SECRET_PREFIX}{header}"), value).await?;
    }
    for (name, value) in &writes.code {
        vault.put(tx, &scope, name, value).await?;
    }
    write_url_secrets(tx, vault, &scope, &writes.url).await?;
    let (sealed, values) = (hook.sealed_headers(), hook.sealed_values());
    for name in store::list_secrets(tx, &hook.id).await? {
        let is_removed_header =
            name.strip_prefix(HEADER_SECRET_PREFIX).is_some_and(|header| sealed.iter().all(|kept| kept != header));
        if is_removed_header || (name.starts_with(CODE_SECRET_PREFIX) && !values.contains(&name)) {
            vault.clear(tx, &scope, &name).await?;
        }
    }
    Ok(())
}

/// Soft-deletes a hook with its secrets and closes its work. Returns whether the hook existed.
async fn hide(tx: &mut Tx, vault: &Vault, id: &HookId) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    if !store::mark_hook_deleted(tx, id, now).await? {
        return Ok(false);
    }
    for name in store::list_secrets(tx, id).await? {
        vault.clear(tx, &secret_scope(id), &name).await?;
    }
    queue::close_circuit(tx, id).await?;
    deliveries::close_deliveries(tx, id, HOOK_DELETED, CLOSE_BATCH_SIZE).await?;
    executions::close_executions(tx, id, HOOK_DELETED, CLOSE_BATCH_SIZE).await?;
    Ok(true)
}

/// Hooks in the scope of an agent are deleted with the agent.
impl AgentDataOwner for Hooks {
    fn name(&self) -> &'static str {
        "hooks"
    }

    fn hide<'t>(&'t self, tx: &'t mut Tx, agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        async move {
            for id in store::list_of_agent(tx, agent).await? {
                hide(tx, self.dependencies().settings.vault(), &id).await?;
            }
            Ok(())
        }
        .boxed_local()
    }

    fn purge<'t>(
        &'t self,
        tx: &'t mut Tx,
        agent: &'t AgentId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        async move {
            let hooks = store::list_deleted_of_agent(tx, agent).await?;
            for id in &hooks {
                let deleted = deliveries::delete_of_hook(tx, id, limit).await?
                    + executions::delete_of_hook(tx, id, limit).await?;
                if deleted > 0 {
                    return Ok(true);
                }
                figures::delete_of_hook(tx, id).await?;
                store::delete_hook(tx, id).await?;
            }
            Ok(!hooks.is_empty())
        }
        .boxed_local()
    }
}
