//! Progress of the wizard.

use serde::Serialize;
use utoipa::ToSchema;

/// Step of the wizard, in the usual order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Create the account.
    Account,
    /// Configure the default provider.
    Provider,
    /// Create an agent.
    Agent,
    /// Create the first API key.
    Complete,
}

/// Completed steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Whether an account exists.
    pub account: bool,
    /// Whether a model is available.
    pub provider: bool,
    /// Whether an agent exists.
    pub agent: bool,
    /// Whether an API key exists.
    pub complete: bool,
}

impl Progress {
    /// Returns the first incomplete step; `None` once a key exists, which completes the wizard.
    #[must_use]
    pub fn next(self) -> Option<Step> {
        if self.complete {
            return None;
        }
        let steps = [(self.account, Step::Account), (self.provider, Step::Provider), (self.agent, Step::Agent)];
        Some(steps.into_iter().find(|(is_done, _)| !is_done).map_or(Step::Complete, |(_, step)| step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_step_is_the_first_incomplete_one() {
        let progress = |account, provider, agent, complete| Progress { account, provider, agent, complete }.next();
        assert_eq!(progress(false, false, false, false), Some(Step::Account));
        assert_eq!(progress(false, true, true, false), Some(Step::Account));
        assert_eq!(progress(true, false, true, false), Some(Step::Provider));
        assert_eq!(progress(true, true, false, false), Some(Step::Agent));
        assert_eq!(progress(true, true, true, false), Some(Step::Complete));
        assert_eq!(progress(false, false, false, true), None);
    }
}
