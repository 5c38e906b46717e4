//! Environment of pages: emulation, profile, mocks, and recorded requests.
//!
//! It belongs to the session, exists before the first action, and survives a restart of Chromium.

use std::sync::Arc;

use agentd_base::{FieldProblem, Problems};
use agentd_browser::{Emulation, Mock, NetworkRequest, Profile, RequestFilter};
use serde_json::Value;

use super::Browser;
use crate::browser::error::BrowserError;
use crate::browser::model::ProfileChange;

impl Browser {
    /// Returns the last requests that match, in the order in which they were sent.
    #[must_use]
    pub fn requests(&self, filter: &RequestFilter) -> Vec<NetworkRequest> {
        self.environment().requests(filter)
    }

    /// Starts recording a HAR.
    ///
    /// # Errors
    /// A recording is running, or the browser fails.
    pub async fn start_har(&self) -> Result<(), BrowserError> {
        let _guard = self.0.change_lock.lock().await;
        if !self.environment().start_har() {
            return Err(BrowserError::HarRunning);
        }
        self.apply_environment().await
    }

    /// Stops HAR recording and returns the requests since its start.
    ///
    /// # Errors
    /// No recording is running.
    pub async fn stop_har(&self) -> Result<Value, BrowserError> {
        let _guard = self.0.change_lock.lock().await;
        let version = self.live().map(|session| session.context().version().to_owned());
        let har = self.environment().stop_har(version.as_deref().unwrap_or("Chromium")).await;
        let har = har.ok_or(BrowserError::HarNotRunning)?;
        // The result is returned even if the browser has ended meanwhile.
        if let Err(error) = self.apply_environment().await {
            tracing::debug!(%error, "failed to stop retaining response bodies in the browser");
        }
        Ok(har)
    }

    #[must_use]
    pub fn mocks(&self) -> Vec<Arc<Mock>> {
        self.environment().mocks()
    }

    /// Adds a mock, or replaces the one with the same pattern.
    ///
    /// # Errors
    /// The limit is reached, or the browser fails.
    pub async fn add_mock(&self, mock: Mock) -> Result<Arc<Mock>, BrowserError> {
        let _guard = self.0.change_lock.lock().await;
        let mock = self.environment().add_mock(mock)?;
        self.apply_environment().await?;
        Ok(mock)
    }

    /// Removes the mock with this pattern, or all; returns the number of removed mocks.
    ///
    /// # Errors
    /// The browser does not respond.
    pub async fn remove_mocks(&self, pattern: Option<&str>) -> Result<usize, BrowserError> {
        let _guard = self.0.change_lock.lock().await;
        let removed = self.environment().remove_mocks(pattern);
        self.apply_environment().await?;
        Ok(removed)
    }

    /// Changes the emulated device.
    ///
    /// # Errors
    /// The device is invalid, or the browser fails.
    pub async fn emulate(&self, emulation: Emulation) -> Result<Emulation, BrowserError> {
        emulation.check().map_err(invalid)?;
        let _guard = self.0.change_lock.lock().await;
        self.environment().set_emulation(emulation.clone());
        self.apply_environment().await?;
        Ok(emulation)
    }

    /// Returns the user agent with this emulation; `None` for the browser's own, or if it is unknown because the
    /// browser is not running.
    #[must_use]
    pub fn user_agent_of(&self, emulation: &Emulation) -> Option<String> {
        match (self.live(), emulation.preset) {
            (Some(session), _) => emulation.user_agent_in(session.context().version()),
            (None, Some(_)) => None,
            (None, None) => emulation.user_agent.clone(),
        }
    }

    /// Changes the browser profile.
    ///
    /// # Errors
    /// The profile is invalid, or the browser fails; the profile is unchanged then.
    pub async fn change_profile(&self, change: ProfileChange) -> Result<Profile, BrowserError> {
        let _guard = self.0.change_lock.lock().await;
        let environment = self.environment();
        let before = environment.profile();
        let mut problems = Problems::new();
        let profile = change.apply(&before, &mut problems);
        problems.into_result()?;
        environment.set_profile(profile.clone());
        if let Err(error) = self.apply_environment().await {
            environment.set_profile(before);
            self.apply_environment().await?;
            return Err(profile_rejected(error));
        }
        Ok(profile)
    }

    /// Applies the environment to open pages; later pages get it when they open.
    async fn apply_environment(&self) -> Result<(), BrowserError> {
        match self.running() {
            Ok(session) => Ok(session.context().apply_environment().await?),
            Err(_) => Ok(()),
        }
    }
}

/// Reports a rejected profile; Chromium supports fewer time zones and languages than exist.
fn profile_rejected(error: BrowserError) -> BrowserError {
    match error {
        BrowserError::Browser(agentd_browser::BrowserError::Protocol(message)) => {
            agentd_browser::BrowserError::Invalid(format!("the browser rejected the profile: {message}")).into()
        }
        other => other,
    }
}

/// Converts problems found by the browser's checks.
pub(crate) fn invalid(found: Vec<(&'static str, String)>) -> BrowserError {
    let problems = found.into_iter().map(|(field, message)| FieldProblem { field: field.to_owned(), message });
    BrowserError::Invalid { problems: problems.collect() }
}
