//! How far the wizard has come.

use serde::Serialize;
use utoipa::ToSchema;

/// A step of the wizard, in the order in which people take them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Account,
    Provider,
    Agent,
    Complete,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// An account was made.
    pub account: bool,
    /// A model can be used.
    pub provider: bool,
    /// An agent exists.
    pub agent: bool,
    /// An API key was made.
    pub complete: bool,
}

impl Progress {
    /// The first step that is not done; `None` once a key exists, for then the wizard is over.
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
    fn the_next_step_is_the_first_that_is_not_done() {
        let progress = |account, provider, agent, complete| Progress { account, provider, agent, complete }.next();
        assert_eq!(progress(false, false, false, false), Some(Step::Account));
        assert_eq!(progress(false, true, true, false), Some(Step::Account));
        assert_eq!(progress(true, false, true, false), Some(Step::Provider));
        assert_eq!(progress(true, true, false, false), Some(Step::Agent));
        assert_eq!(progress(true, true, true, false), Some(Step::Complete));
        assert_eq!(progress(false, false, false, true), None);
    }
}
