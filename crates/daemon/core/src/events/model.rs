//! Filter on event types.

use super::catalogue::{CATALOGUE, Category};
use super::live_types::LIVE;

/// Set of event types and type prefixes. An empty filter matches all types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeFilter(Vec<String>);

/// Prefixes of live event types: the part before the first dot.
const LIVE_PREFIXES: [&str; 2] = ["turn", "delivery"];

impl TypeFilter {
    /// Parses a comma-separated list such as `task,alert.firing`.
    ///
    /// # Errors
    /// A message that names the first unknown type.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        match names.iter().find(|name| !is_known(name)) {
            Some(unknown) => Err(format!(
                "`{}` is not an event type or a prefix such as `task`; list event types with GET /api/hooks/event-types",
                unknown.chars().take(80).collect::<String>()
            )),
            None => Ok(Self(names.into_iter().map(str::to_owned).collect())),
        }
    }

    pub(super) fn matches(&self, event_type: &str) -> bool {
        let is_wanted = |name: &String| {
            event_type.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.0.is_empty() || self.0.iter().any(is_wanted)
    }
}

fn is_known(name: &str) -> bool {
    Category::ALL.iter().any(|category| category.as_str() == name)
        || LIVE_PREFIXES.contains(&name)
        || CATALOGUE.iter().any(|event| event.name == name)
        || LIVE.iter().any(|live| live.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_matches_full_types_and_prefixes() {
        let filter = TypeFilter::parse("task, alert.firing").unwrap();
        for (event_type, wanted) in
            [("task.started", true), ("alert.firing", true), ("alert.resolved", false), ("tasks.x", false)]
        {
            assert_eq!(filter.matches(event_type), wanted, "{event_type}");
        }
        assert!(TypeFilter::parse("").unwrap().matches("memory.stored"));
        assert!(TypeFilter::parse("task,tsak").unwrap_err().contains("`tsak`"));
    }

    #[test]
    fn live_types_have_a_known_prefix_and_are_not_in_the_catalogue() {
        for live in LIVE {
            let (first, _) = live.name.split_once('.').unwrap();
            assert!(LIVE_PREFIXES.contains(&first) && CATALOGUE.iter().all(|event| event.name != live.name));
        }
    }
}
