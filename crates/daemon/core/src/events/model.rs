//! Which events somebody wants to hear of.

use super::catalogue::{CATALOGUE, Category};
use super::live_types::LIVE;

/// Whole types and first parts of types; empty: all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeFilter(Vec<String>);

/// What comes before the first dot of a type that is told and not stored.
const LIVE_PREFIXES: [&str; 2] = ["turn", "delivery"];

impl TypeFilter {
    /// Reads `task,alert.firing`.
    ///
    /// # Errors
    /// The first name that is none of an event.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        match names.iter().find(|name| !is_known(name)) {
            Some(unknown) => Err(format!(
                "`{}` is no type of event, and no first part of one such as `task`; GET /api/hooks/event-types names them",
                unknown.chars().take(80).collect::<String>()
            )),
            None => Ok(Self(names.into_iter().map(str::to_owned).collect())),
        }
    }

    pub(super) fn lets_through(&self, event_type: &str) -> bool {
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
        || LIVE.iter().any(|told| told.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_whole_or_by_their_first_part() {
        let filter = TypeFilter::parse("task, alert.firing").unwrap();
        for (event_type, wanted) in
            [("task.started", true), ("alert.firing", true), ("alert.resolved", false), ("tasks.x", false)]
        {
            assert_eq!(filter.lets_through(event_type), wanted, "{event_type}");
        }
        assert!(TypeFilter::parse("").unwrap().lets_through("memory.stored"));
        assert!(TypeFilter::parse("task,tsak").unwrap_err().contains("`tsak`"));
    }

    #[test]
    fn each_live_type_has_its_first_part() {
        for told in LIVE {
            let (first, _) = told.name.split_once('.').unwrap();
            assert!(LIVE_PREFIXES.contains(&first) && CATALOGUE.iter().all(|event| event.name != told.name));
        }
    }
}
