//! What agents can do with the browser. The tools stand among the built-in ones, with a switch each; all of them reach
//! outside, so they ask where approvals are required, and turns of strangers do not have them.

mod consequence;
mod describe;
mod run;
mod shown;

use std::sync::Arc;

use agentd_engine::tools::{JoinsBuiltin, Tool};

use super::service::Browser;
use describe::Kind;
use run::BrowserTool;

/// The tools of the browser.
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

impl JoinsBuiltin for BrowserTools {
    fn tools(&self) -> Vec<(Arc<dyn Tool>, Option<String>)> {
        let problem = self.browser.problem();
        self.tools.iter().map(|tool| (Arc::clone(tool), problem.clone())).collect()
    }
}
