//! Validation of hooks restored from an archive, by the rules that apply when a hook is saved.

use agentd_core::runtime::ValidateRestored;
use agentd_store::{Read, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::model::{Action, Hook, HookChange, MAX_HOOKS};
use super::store;

/// Validates restored hooks.
#[derive(Debug)]
pub struct ValidateHooks;

impl ValidateRestored for ValidateHooks {
    fn validate<'t>(&'t self, tx: &'t mut Tx) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>> {
        find_fault(tx).boxed_local()
    }
}

async fn find_fault(read: &mut Read) -> Result<Option<String>, StoreError> {
    if store::count_hooks(read).await? > MAX_HOOKS {
        return Ok(Some(format!("the archive contains more than {MAX_HOOKS} hooks, which is the limit")));
    }
    let database = store::find_version(read).await?.database;
    Ok(store::list_hooks(read, &database).await?.iter().find_map(hook_problem))
}

fn hook_problem(hook: &Hook) -> Option<String> {
    let shown: String = hook.name.chars().take(80).collect::<String>().escape_debug().to_string();
    if let Action::Broken(problem) = &hook.action {
        return Some(format!("the hook `{shown}` is not valid: {problem}"));
    }
    let is_scoped = hook.agent_name().is_some_and(|name| !name.is_empty());
    if is_scoped != hook.agent_id.is_some() || (!is_scoped && hook.scope != Hook::GLOBAL) {
        return Some(format!("the hook `{shown}` is not valid: its scope does not match its agent"));
    }
    if !(1..=Hook::MAX_RETRIES).contains(&hook.max_retries) {
        return Some(format!(
            "the hook `{shown}` is not valid: max_retries is not between 1 and {}",
            Hook::MAX_RETRIES
        ));
    }
    let change = HookChange { tags: Some(hook.tags.clone()), ..HookChange::default() };
    let problems = change.apply(&mut hook.clone(), |_| None).err()?;
    let messages: Vec<String> =
        problems.iter().map(|problem| format!("{} {}", problem.field, problem.message)).collect();
    Some(format!("the hook `{shown}` is not valid: {}", messages.join("; ")))
}
