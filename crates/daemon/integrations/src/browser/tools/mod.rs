//! Browser tools of agents. They are built-in tools that can be disabled separately. All of them access external
//! systems, so they require approval where configured and are unavailable in turns of unknown senders.

mod consequence;
mod describe;
mod output;
mod run;

use std::sync::Arc;

use agentd_engine::tools::{BuiltinToolProvider, Tool};

use super::service::Browser;
use describe::Kind;
use run::BrowserTool;

/// Provider of the browser tools.
#[derive(Debug)]
pub struct BrowserTools {
    browser: Browser,
    tools: Vec<Arc<dyn Tool>>,
}

impl BrowserTools {
    #[must_use]
    pub fn new(browser: &Browser) -> Self {
        let tool = |kind: &Kind| Arc::new(BrowserTool::new(*kind, browser.clone())) as Arc<dyn Tool>;
        Self { tools: Kind::ALL.iter().map(tool).collect(), browser: browser.clone() }
    }
}

impl BuiltinToolProvider for BrowserTools {
    fn tools(&self) -> Vec<(Arc<dyn Tool>, Option<String>)> {
        let problem = self.browser.problem();
        self.tools.iter().map(|tool| (Arc::clone(tool), problem.clone())).collect()
    }
}
