//! Saved login states: cookies, local storage and databases of sites.
//!
//! Invariant: the contents of a state are encrypted and only returned to an owner.

use agentd_base::{Problems, Secret};
use agentd_browser::{SavedState, SkippedDatabase, StorageState};
use agentd_store::Tx;

use super::Browser;
use crate::browser::error::BrowserError;
use crate::browser::model::AuthState;
use crate::browser::store;

/// Vault scope of the contents.
const SCOPE: &str = "browser_auth_state";
const MAX_STATES: u64 = 100;

impl Browser {
    /// Returns all states, sorted by name.
    ///
    /// # Errors
    /// The database fails.
    pub async fn auth_states(&self) -> Result<Vec<AuthState>, BrowserError> {
        Ok(store::list_auth_states(&mut self.0.context.db.read().await?).await?)
    }

    /// Saves the given state, or that of the session, and replaces one of the same name. Also returns the databases
    /// that were omitted.
    ///
    /// # Errors
    /// No session, the state is too large, or there are too many.
    pub async fn save_auth_state(
        &self,
        name: String,
        given: Option<StorageState>,
    ) -> Result<(AuthState, Vec<SkippedDatabase>), BrowserError> {
        let mut problems = Problems::new();
        problems.require(AuthState::is_name(&name), "name", AuthState::NAME_RULE);
        problems.into_result()?;
        let SavedState { state, left_out } = match given {
            Some(state) => SavedState { state, left_out: Vec::new() },
            None => self.running()?.context().storage_state().await?,
        };
        state.check()?;
        let now = self.now();
        let (cookies, origins) = (state.cookies.len() as u64, state.origins.len() as u64);
        let kept = AuthState { name, cookies, origins, created_at: now, updated_at: now };
        let text = serde_json::to_string(&state).map_err(|_| BrowserError::AuthStateLost(kept.name.clone()))?;
        let vault = self.0.settings.vault().clone();
        let sealed = Secret::new(text);
        let written = self.0.context.db.write(async move |tx: &mut Tx| {
            let known = store::find_auth_state(tx, &kept.name).await?;
            if known.is_none() && store::count_auth_states(tx).await? >= MAX_STATES {
                return Ok(None);
            }
            store::upsert_auth_state(tx, &kept).await?;
            vault.put(tx, SCOPE, &kept.name, &sealed).await?;
            store::find_auth_state(tx, &kept.name).await
        });
        Ok((written.await?.ok_or(BrowserError::TooManyAuthStates(MAX_STATES))?, left_out))
    }

    /// Returns the contents of a state.
    ///
    /// # Errors
    /// No state has this name, or a restored backup did not contain it.
    pub async fn auth_state(&self, name: &str) -> Result<(AuthState, StorageState), BrowserError> {
        check_name(name)?;
        let mut read = self.0.context.db.read_snapshot().await?;
        let known = store::find_auth_state(&mut read, name).await?;
        let known = known.ok_or_else(|| BrowserError::AuthStateNotFound(truncate_name(name)))?;
        let sealed = self.0.settings.vault().get_in(&mut read, SCOPE, name).await?;
        let sealed = sealed.ok_or_else(|| BrowserError::AuthStateLost(truncate_name(name)))?;
        let state =
            serde_json::from_str(sealed.expose()).map_err(|_| BrowserError::AuthStateLost(truncate_name(name)))?;
        Ok((known, state))
    }

    /// Replaces the cookies and the storage of the session by a state; starts the browser if necessary.
    ///
    /// # Errors
    /// Same as [`Self::auth_state`], or the browser rejects the state.
    pub async fn restore_auth_state(&self, name: &str) -> Result<AuthState, BrowserError> {
        let (known, state) = self.auth_state(name).await?;
        self.session().await?.context().restore_storage_state(&state).await?;
        Ok(known)
    }

    /// Deletes a login state.
    ///
    /// # Errors
    /// No state has this name.
    pub async fn delete_auth_state(&self, name: &str) -> Result<(), BrowserError> {
        check_name(name)?;
        let vault = self.0.settings.vault().clone();
        let wanted = name.to_owned();
        let deleted = self.0.context.db.write(async move |tx: &mut Tx| {
            vault.clear(tx, SCOPE, &wanted).await?;
            store::delete_auth_state(tx, &wanted).await
        });
        if deleted.await? { Ok(()) } else { Err(BrowserError::AuthStateNotFound(truncate_name(name))) }
    }
}

/// Rejects invalid names as not found.
fn check_name(name: &str) -> Result<(), BrowserError> {
    let is_plain = name.len() <= 63 && name.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-'));
    if is_plain { Ok(()) } else { Err(BrowserError::AuthStateNotFound(truncate_name(name))) }
}

fn truncate_name(name: &str) -> String {
    name[..name.floor_char_boundary(63)].to_owned()
}
