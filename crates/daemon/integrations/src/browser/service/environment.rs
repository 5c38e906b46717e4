//! How the browser appears, what its pages request, and answers of ours in place of servers'.
//!
//! All of it belongs to the session, and is there before the first action and after a Chromium that ended.

use std::sync::Arc;

use agentd_base::{FieldProblem, Problems};
use agentd_browser::{Emulation, Mock, NetworkRequest, Profile, RequestFilter};
use serde_json::Value;

use super::Browser;
use crate::browser::error::BrowserError;
use crate::browser::model::ProfileChange;

impl Browser {
    /// The last ones that fit, in the order of their sending.
    #[must_use]
    pub fn requests(&self, filter: &RequestFilter) -> Vec<NetworkRequest> {
        self.environment().requests(filter)
    }

    /// # Errors
    /// They are recorded already, or the browser does not take it.
    pub async fn start_har(&self) -> Result<(), BrowserError> {
        let _one = self.0.changing.lock().await;
        if !self.environment().start_har() {
            return Err(BrowserError::HarRunning);
        }
        self.apply_environment().await
    }

    /// What was requested since the start.
    ///
    /// # Errors
    /// There was none.
    pub async fn stop_har(&self) -> Result<Value, BrowserError> {
        let _one = self.0.changing.lock().await;
        let version = self.live().map(|session| session.context().version().to_owned());
        let har = self.environment().stop_har(version.as_deref().unwrap_or("Chromium")).await;
        let har = har.ok_or(BrowserError::HarNotRunning)?;
        // What was recorded is not lost because the browser has ended meanwhile.
        if let Err(error) = self.apply_environment().await {
            tracing::debug!(%error, "the browser still keeps bodies");
        }
        Ok(har)
    }

    #[must_use]
    pub fn mocks(&self) -> Vec<Arc<Mock>> {
        self.environment().mocks()
    }

    /// Adds a mock, or replaces the one with its pattern.
    ///
    /// # Errors
    /// There are too many, or the browser does not take it.
    pub async fn add_mock(&self, mock: Mock) -> Result<Arc<Mock>, BrowserError> {
        let _one = self.0.changing.lock().await;
        let mock = self.environment().add_mock(mock)?;
        self.apply_environment().await?;
        Ok(mock)
    }

    /// Removes the mock with this pattern, or all; answers how many.
    ///
    /// # Errors
    /// The browser does not answer.
    pub async fn remove_mocks(&self, pattern: Option<&str>) -> Result<usize, BrowserError> {
        let _one = self.0.changing.lock().await;
        let removed = self.environment().remove_mocks(pattern);
        self.apply_environment().await?;
        Ok(removed)
    }

    /// # Errors
    /// It is no device, or the browser does not take it.
    pub async fn emulate(&self, emulation: Emulation) -> Result<Emulation, BrowserError> {
        emulation.check().map_err(invalid)?;
        let _one = self.0.changing.lock().await;
        self.environment().set_emulation(emulation.clone());
        self.apply_environment().await?;
        Ok(emulation)
    }

    /// What the browser says of itself then; none for its own, and for one that is not known before it runs.
    #[must_use]
    pub fn user_agent_of(&self, emulation: &Emulation) -> Option<String> {
        match (self.live(), emulation.preset) {
            (Some(session), _) => emulation.user_agent_in(session.context().version()),
            (None, Some(_)) => None,
            (None, None) => emulation.user_agent.clone(),
        }
    }

    /// # Errors
    /// It is not valid, or the browser does not take it; then the profile is as it was.
    pub async fn change_profile(&self, change: ProfileChange) -> Result<Profile, BrowserError> {
        let _one = self.0.changing.lock().await;
        let environment = self.environment();
        let before = environment.profile();
        let mut problems = Problems::new();
        let profile = change.apply(&before, &mut problems);
        problems.into_result()?;
        environment.set_profile(profile.clone());
        if let Err(error) = self.apply_environment().await {
            environment.set_profile(before);
            self.apply_environment().await?;
            return Err(not_taken(error));
        }
        Ok(profile)
    }

    /// What is open follows it at once; what will be opened, anyway.
    async fn apply_environment(&self) -> Result<(), BrowserError> {
        match self.running() {
            Ok(session) => Ok(session.context().apply_environment().await?),
            Err(_) => Ok(()),
        }
    }
}

/// Chromium knows fewer zones and languages than there are.
fn not_taken(error: BrowserError) -> BrowserError {
    match error {
        BrowserError::Browser(agentd_browser::BrowserError::Protocol(message)) => {
            agentd_browser::BrowserError::Invalid(format!("the browser does not take this profile: {message}")).into()
        }
        other => other,
    }
}

/// What the browser's own checks found.
pub(crate) fn invalid(found: Vec<(&'static str, String)>) -> BrowserError {
    let problems = found.into_iter().map(|(field, message)| FieldProblem { field: field.to_owned(), message });
    BrowserError::Invalid { problems: problems.collect() }
}
