//! States of being signed in: cookies, local storage and databases of sites, kept for another day.
//!
//! Invariant: what is in a state is sealed, and leaves only where an owner asks for it.

use agentd_base::{Problems, Secret};
use agentd_browser::{LeftOut, SavedState, StorageState};
use agentd_store::Tx;

use super::Browser;
use crate::browser::error::BrowserError;
use crate::browser::model::AuthState;
use crate::browser::store;

/// Of the secrets.
const SCOPE: &str = "browser_auth_state";
const MAX_STATES: u64 = 100;

impl Browser {
    /// In the order of their names.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn auth_states(&self) -> Result<Vec<AuthState>, BrowserError> {
        Ok(store::list_auth_states(&mut self.0.context.db.read().await?).await?)
    }

    /// Keeps a state, in place of the one of that name: the one that is given, or else that of the session. Answers as
    /// well which databases could not be in it.
    ///
    /// # Errors
    /// There is no session, it is too large, or there are too many.
    pub async fn save_auth_state(
        &self,
        name: String,
        given: Option<StorageState>,
    ) -> Result<(AuthState, Vec<LeftOut>), BrowserError> {
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

    /// What is in a state.
    ///
    /// # Errors
    /// There is none of that name, or a backup came without its contents.
    pub async fn auth_state(&self, name: &str) -> Result<(AuthState, StorageState), BrowserError> {
        check_name(name)?;
        let mut read = self.0.context.db.read_snapshot().await?;
        let known = store::find_auth_state(&mut read, name).await?;
        let known = known.ok_or_else(|| BrowserError::NoAuthState(shown(name)))?;
        let sealed = self.0.settings.vault().get_in(&mut read, SCOPE, name).await?;
        let sealed = sealed.ok_or_else(|| BrowserError::AuthStateLost(shown(name)))?;
        let state = serde_json::from_str(sealed.expose()).map_err(|_| BrowserError::AuthStateLost(shown(name)))?;
        Ok((known, state))
    }

    /// Puts a state in the place of the session's cookies and storage, starting the browser if there is none.
    ///
    /// # Errors
    /// As [`Self::auth_state`], and the browser does not take it.
    pub async fn restore_auth_state(&self, name: &str) -> Result<AuthState, BrowserError> {
        let (known, state) = self.auth_state(name).await?;
        self.session().await?.context().restore_storage_state(&state).await?;
        Ok(known)
    }

    /// # Errors
    /// There is none of that name.
    pub async fn delete_auth_state(&self, name: &str) -> Result<(), BrowserError> {
        check_name(name)?;
        let vault = self.0.settings.vault().clone();
        let wanted = name.to_owned();
        let deleted = self.0.context.db.write(async move |tx: &mut Tx| {
            vault.clear(tx, SCOPE, &wanted).await?;
            store::delete_auth_state(tx, &wanted).await
        });
        if deleted.await? { Ok(()) } else { Err(BrowserError::NoAuthState(shown(name))) }
    }
}

/// What cannot be a name is the name of none.
fn check_name(name: &str) -> Result<(), BrowserError> {
    let is_plain = name.len() <= 63 && name.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-'));
    if is_plain { Ok(()) } else { Err(BrowserError::NoAuthState(shown(name))) }
}

fn shown(name: &str) -> String {
    name[..name.floor_char_boundary(63)].to_owned()
}
