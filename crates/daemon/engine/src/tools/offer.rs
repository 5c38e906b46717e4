//! The tools of one turn.

use std::collections::HashMap;
use std::sync::Arc;

use super::tool::{Effect, Share, Tool, ToolDescription};

/// What an agent is offered in one turn, each name once. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    tools: Arc<[Arc<dyn Tool>]>,
}

impl Offer {
    /// The tools, or as many of them as there is room for, by their [`Share`]. Which ones depends on the tools alone,
    /// so it stays the same from turn to turn; so does their order.
    pub(super) fn of_most(tools: Vec<Arc<dyn Tool>>, most: usize) -> Self {
        if tools.len() <= most {
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
        let mut kept: Vec<usize> = order.into_iter().take(most).map(|(_, _, index)| index).collect();
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

    /// The part that changes nothing.
    #[must_use]
    pub fn reading_only(self) -> Self {
        self.filtered(|tool| tool.effect == Effect::Reads)
    }

    /// The part that `keep` wants.
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
                input_schema: InputSchema::known(json!({"type": "object"})),
                effect: Effect::Acts,
                time_limit: Duration::from_secs(1),
            };
            Arc::new(Named { description, share }) as Arc<dyn Tool>
        };
        (0..count).map(tool).collect()
    }

    #[test]
    fn nobody_loses_everything_where_room_is_short() {
        let tools = [
            named("built", 2, Share::BuiltIn),
            named("custom", 3, Share::Owner("custom")),
            named("a", 5, Share::Server("a")),
            named("b", 1, Share::Server("b")),
            named("c", 5, Share::Server("c")),
            named("device", 1, Share::Owner("dev")),
        ];
        let offered = |most: usize| -> Vec<String> {
            let offer = Offer::of_most(tools.concat(), most);
            offer.iter().map(|tool| tool.description().name.clone()).collect()
        };
        let expected = "built0 built1 custom0 custom1 custom2 a0 a1 b0 c0 c1 device0";
        assert_eq!(offered(11).join(" "), expected);
        assert_eq!(offered(4).join(" "), "built0 built1 custom0 device0");
        assert_eq!(offered(100).len(), 17);
    }
}
