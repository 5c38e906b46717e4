//! Making, changing and deleting hooks.

use std::collections::HashMap;

use agentd_base::FieldProblem;
use agentd_core::vault::{Vault, write_url_secrets};
use agentd_engine::agents::{AgentId, Agents, OwnsAgentData};
use agentd_store::{Recorder, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::Hooks;
use crate::hooks::error::HookError;
use crate::hooks::model::{
    Action, BuiltinAction, BundledHook, CODE_SECRETS, DELETED, HEADER_SECRETS, Hook, HookChange, HookId, HookType,
    MAX_HOOKS, SECRET, SecretWrite, SecretWrites, secret_scope,
};
use crate::hooks::store::{self, deliveries, executions, figures, queue};
use crate::notify::Target;

/// What is closed together with the deletion itself; the rest follows in the background.
const CLOSED_AT_ONCE: u32 = 500;

impl Hooks {
    /// Every hook, the oldest first.
    ///
    /// # Errors
    /// The database is away.
    pub async fn list(&self) -> Result<Vec<Hook>, HookError> {
        let mut read = self.db().read().await?;
        let database = store::find_version(&mut read).await?.database;
        Ok(store::list_hooks(&mut read, &database).await?)
    }

    /// # Errors
    /// `NotFound`, or the database is away.
    pub async fn get(&self, id: &HookId) -> Result<Hook, HookError> {
        let found = store::find_hook(&mut self.db().read().await?, id).await?;
        found.ok_or_else(|| HookError::not_found(id.as_str()))
    }

    /// Makes a hook; it hears every event from now on.
    ///
    /// # Errors
    /// `Invalid` with every bad field, `TooMany`, or the database is away.
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
        let (vault, living) = (self.dependencies().settings.vault().clone(), self.dependencies().agents.clone());
        let create = async move |tx: &mut Tx| {
            if store::count_hooks(tx).await? >= MAX_HOOKS {
                return Err(HookError::TooMany);
            }
            require_called_hook(tx, &hook).await?;
            store::insert_hook(tx, &hook).await?;
            write_secrets(tx, &vault, &hook, &secrets).await?;
            require_agent(tx, &living, &hook).await?;
            recorder.record(tx, &hook).await?;
            Ok(hook.clone())
        };
        self.db().write(create).await
    }

    /// What is wrong with a change, made to a hook of which nothing else is known.
    pub(crate) async fn problems(&self, hook_type: HookType, wanted: HookChange) -> Vec<FieldProblem> {
        let Ok(agents) = self.agents_by_name().await else { return Vec::new() };
        let mut hook = Hook::empty(HookId::from("hook"), hook_type, self.context().clock.now());
        let problems = wanted.apply(&mut hook, |name| agents.get(name).cloned()).err().unwrap_or_default();
        match self.check_address(&hook, None) {
            Err(HookError::Invalid { problems: more }) => problems.into_iter().chain(more).collect(),
            _ => problems,
        }
    }

    /// Makes a hook of one that comes with the daemon.
    ///
    /// # Errors
    /// `NoSuchBundled`, or as [`Self::create`].
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

    /// Changes a hook. One that now listens to another event or is switched on hears events from now on.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` with every bad field, or the database is away.
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
                // It may be another receiver now.
                queue::close_circuit(tx, &hook.id).await?;
            }
            hook.updated_at = tx.clock().now();
            let listens_anew = before.0 != hook.event_type || (hook.enabled && !before.1);
            store::update_hook(tx, &hook, listens_anew).await?;
            write_secrets(tx, &vault, &hook, &secrets).await?;
            require_agent(tx, &here.dependencies().agents, &hook).await?;
            Ok::<_, HookError>(hook)
        };
        let hook = self.db().write(update).await?;
        self.wake_queues();
        Ok(hook)
    }

    /// Switches a hook off, or on again.
    ///
    /// # Errors
    /// `NotFound`, or the database is away.
    pub async fn toggle(&self, id: HookId) -> Result<Hook, HookError> {
        let toggle = async move |tx: &mut Tx| {
            let mut hook = store::find_hook(tx, &id).await?.ok_or_else(|| HookError::not_found(id.as_str()))?;
            hook.set_enabled(!hook.enabled);
            hook.updated_at = tx.clock().now();
            store::update_hook(tx, &hook, hook.enabled).await?;
            if hook.enabled {
                queue::hurry_circuit(tx, &hook.id).await?;
            }
            Ok::<_, HookError>(hook)
        };
        let hook = self.db().write(toggle).await?;
        self.wake_queues();
        Ok(hook)
    }

    /// Deletes a hook. What it still had to do is closed.
    ///
    /// # Errors
    /// `NotFound`, or the database is away.
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

    /// Refuses an address that would never be reached, as far as that shows without asking anybody. The platform
    /// that a target had `before` may have been switched off since.
    fn check_address(&self, hook: &Hook, before: Option<&Target>) -> Result<(), HookError> {
        if let Action::Builtin(BuiltinAction::SendToChannel { target, .. }) = &hook.action
            && Some(target) != before
            && let Some(fault) = self.dependencies().notify.fault_of(target)
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

/// Who is to act or to remember is there now. `agents`: their ids by their names.
fn require_named_agent(hook: &Hook, agents: &HashMap<String, AgentId>) -> Result<(), HookError> {
    let (Action::Builtin(BuiltinAction::StartAgent { agent, .. })
    | Action::Builtin(BuiltinAction::StoreMemory { agent: Some(agent), .. })) = &hook.action
    else {
        return Ok(());
    };
    if agents.contains_key(agent) || agents.values().any(|id| id.as_str() == agent) {
        return Ok(());
    }
    Err(bad_config("agent", "names no agent that is there; GET /api/agents lists them".to_owned()))
}

/// The hook that is to be called is there now.
async fn require_called_hook(tx: &mut Tx, hook: &Hook) -> Result<(), HookError> {
    if let Action::Builtin(BuiltinAction::CallHook { hook_id }) = &hook.action
        && store::find_hook(tx, hook_id).await?.is_none()
    {
        return Err(bad_config("hook_id", "names no hook that is there; GET /api/hooks lists them".to_owned()));
    }
    Ok(())
}

/// None is made for an agent that was deleted meanwhile.
async fn require_agent(tx: &mut Tx, agents: &Agents, hook: &Hook) -> Result<(), HookError> {
    if let Some(agent) = &hook.agent_id
        && !agents.is_alive(tx, agent).await?
    {
        let message = "names no agent that is there".to_owned();
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
        vault.put(tx, &scope, &format!("{HEADER_SECRETS}{header}"), value).await?;
    }
    for (name, value) in &writes.code {
        vault.put(tx, &scope, name, value).await?;
    }
    write_url_secrets(tx, vault, &scope, &writes.url).await?;
    let (sealed, values) = (hook.sealed_headers(), hook.sealed_values());
    for name in store::list_secrets(tx, &hook.id).await? {
        let is_removed_header =
            name.strip_prefix(HEADER_SECRETS).is_some_and(|header| sealed.iter().all(|kept| kept != header));
        if is_removed_header || (name.starts_with(CODE_SECRETS) && !values.contains(&name)) {
            vault.clear(tx, &scope, &name).await?;
        }
    }
    Ok(())
}

/// Whether it was there.
async fn hide(tx: &mut Tx, vault: &Vault, id: &HookId) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    if !store::hide_hook(tx, id, now).await? {
        return Ok(false);
    }
    for name in store::list_secrets(tx, id).await? {
        vault.clear(tx, &secret_scope(id), &name).await?;
    }
    queue::close_circuit(tx, id).await?;
    deliveries::close_deliveries(tx, id, DELETED, CLOSED_AT_ONCE).await?;
    executions::close_executions(tx, id, DELETED, CLOSED_AT_ONCE).await?;
    Ok(true)
}

/// The hooks of an agent's scope go with the agent.
impl OwnsAgentData for Hooks {
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
                let gone = deliveries::delete_of_hook(tx, id, limit).await?
                    + executions::delete_of_hook(tx, id, limit).await?;
                if gone > 0 {
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
