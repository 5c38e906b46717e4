//! Tools provided by tests.

use std::sync::Arc;

use agentd_engine::agents::Agent;
use agentd_engine::tools::{Tool, ToolSource};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::RwLock;

/// Tool source of every test daemon, initially empty.
#[derive(Clone, Default)]
pub struct TestTools(Arc<RwLock<Vec<Arc<dyn ToolSource>>>>);

impl TestTools {
    pub fn add(&self, source: Arc<dyn ToolSource>) {
        self.0.write().push(source);
    }
}

impl ToolSource for TestTools {
    fn name(&self) -> &'static str {
        "test"
    }

    fn tools<'a>(&'a self, agent: &'a Agent) -> BoxFuture<'a, Vec<Arc<dyn Tool>>> {
        let sources = self.0.read().clone();
        async move {
            let mut tools = Vec::new();
            for source in sources {
                tools.extend(source.tools(agent).await);
            }
            tools
        }
        .boxed()
    }

    fn has_tool<'a>(&'a self, name: &'a str) -> BoxFuture<'a, bool> {
        let sources = self.0.read().clone();
        async move {
            for source in sources {
                if source.has_tool(name).await {
                    return true;
                }
            }
            false
        }
        .boxed()
    }

    fn reserved_names(&self) -> Vec<String> {
        self.0.read().iter().flat_map(|source| source.reserved_names()).collect()
    }
}
