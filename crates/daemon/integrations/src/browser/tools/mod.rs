//! What agents can do with the browser. The tools stand among the built-in ones, with a switch each; all of them reach
//! outside, so they ask where approvals are required, and turns of strangers do not have them.

mod consequence;
mod describe;
mod run;
mod shown;

use std::sync::Arc;

use agentd_engine::agents::Agent;
use agentd_engine::tools::{
    Author, Consequence, JoinsBuiltin, Tool, ToolCallContext, ToolDescription, ToolError, ToolOutput,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::service::Browser;

/// The tools of the browser.
#[derive(Debug)]
pub struct BrowserTools {
    browser: Browser,
    tools: Vec<Arc<dyn Tool>>,
}

impl BrowserTools {
    #[must_use]
    pub fn new(browser: &Browser) -> Self {
        let tool = |kind: &Kind| {
            let tool = BrowserTool { description: kind.describe(), kind: *kind, browser: browser.clone() };
            Arc::new(tool) as Arc<dyn Tool>
        };
        Self { tools: Kind::ALL.iter().map(tool).collect(), browser: browser.clone() }
    }
}

impl JoinsBuiltin for BrowserTools {
    fn tools(&self) -> Vec<(Arc<dyn Tool>, Option<String>)> {
        let problem = self.browser.problem();
        self.tools.iter().map(|tool| (Arc::clone(tool), problem.clone())).collect()
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Open,
    Act,
    Read,
    Screenshot,
    Tabs,
    Downloads,
}

impl Kind {
    const ALL: [Self; 6] = [Self::Open, Self::Act, Self::Read, Self::Screenshot, Self::Tabs, Self::Downloads];
}

#[derive(Debug)]
struct BrowserTool {
    description: ToolDescription,
    kind: Kind,
    browser: Browser,
}

impl Tool for BrowserTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn description_author(&self) -> Author {
        Author::Trusted
    }

    fn output_author(&self) -> Author {
        Author::Other("a web page".to_owned())
    }

    fn consequence<'a>(&'a self, input: &'a Map<String, Value>, agent: &'a Agent) -> BoxFuture<'a, Consequence> {
        self.consequence_of(input, agent).boxed()
    }

    fn call(
        &self,
        input: Map<String, Value>,
        context: ToolCallContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.run(input, context).boxed()
    }
}
