//! Set of tools that are offered in a turn.

use std::collections::HashMap;
use std::sync::Arc;

use super::tool::{Effect, Share, Tool, ToolDescription};

/// Tools offered to an agent in one turn, with unique names. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    tools: Arc<[Arc<dyn Tool>]>,
}

impl Offer {
    /// Creates an offer of at most `limit` tools, distributed by [`Share`]. The selection and the order depend on the
    /// tools alone, so they are stable between turns.
    pub(super) fn with_limit(tools: Vec<Arc<dyn Tool>>, limit: usize) -> Self {
        if tools.len() <= limit {
            return Self { tools: tools.into() };
        }
        let mut taken: HashMap<Share<'_>, usize> = HashMap::new();
        let mut order = Vec::with_capacity(tools.len());
        for (index, tool) in tools.iter().enumerate() {
            let share = tool.share();
            let turn = taken.entry(share).or_default();
            order.push((share.rank(), *turn, index));
            *turn += 1;
        }
        order.sort_unstable();
        let mut kept: Vec<usize> = order.into_iter().take(limit).map(|(_, _, index)| index).collect();
        kept.sort_unstable();
        Self { tools: kept.into_iter().map(|index| Arc::clone(&tools[index])).collect() }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }

    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.description().name == name)
    }

    /// Returns only the read-only tools.
    #[must_use]
    pub fn reading_only(self) -> Self {
        self.filtered(|tool| tool.effect == Effect::Reads)
    }

    /// Returns only the tools for which `keep` is true.
    #[must_use]
    pub fn filtered(self, keep: impl Fn(&ToolDescription) -> bool) -> Self {
        Self { tools: self.tools.iter().filter(|tool| keep(tool.description())).cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::tools::schema::InputSchema;
    use crate::tools::tool::{Author, ToolCallContext, ToolError, ToolOutput};

    #[derive(Debug)]
    struct Named {
        description: ToolDescription,
        share: Share<'static>,
    }

    impl Tool for Named {
        fn description(&self) -> &ToolDescription {
            &self.description
        }

        fn share(&self) -> Share<'_> {
            self.share
        }

        fn description_author(&self) -> Author {
            Author::Trusted
        }

        fn output_author(&self) -> Author {
            Author::Trusted
        }

        fn call(&self, _: Map<String, Value>, _: ToolCallContext) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
            async { Err(ToolError::Cancelled) }.boxed()
        }
    }

    fn named(start: &str, count: usize, share: Share<'static>) -> Vec<Arc<dyn Tool>> {
        let tool = |number: usize| {
            let description = ToolDescription {
                name: format!("{start}{number}"),
                description: String::new(),
                input_schema: InputSchema::trusted(json!({"type": "object"})),
                effect: Effect::Acts,
                time_limit: Duration::from_secs(1),
            };
            Arc::new(Named { description, share }) as Arc<dyn Tool>
        };
        (0..count).map(tool).collect()
    }

    #[test]
    fn limit_is_shared_among_sources() {
        let tools = [
            named("built", 2, Share::BuiltIn),
            named("custom", 3, Share::Owner("custom")),
            named("a", 5, Share::Server("a")),
            named("b", 1, Share::Server("b")),
            named("c", 5, Share::Server("c")),
            named("device", 1, Share::Owner("dev")),
        ];
        let offered = |limit: usize| -> Vec<String> {
            let offer = Offer::with_limit(tools.concat(), limit);
            offer.iter().map(|tool| tool.description().name.clone()).collect()
        };
        let expected = "built0 built1 custom0 custom1 custom2 a0 a1 b0 c0 c1 device0";
        assert_eq!(offered(11).join(" "), expected);
        assert_eq!(offered(4).join(" "), "built0 built1 custom0 device0");
        assert_eq!(offered(100).len(), 17);
    }
}
