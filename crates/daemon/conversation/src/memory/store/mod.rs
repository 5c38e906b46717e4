//! Rows of episodes, their vectors, entities and figures. Each change of an episode is logged for the
//! search indexes, and counted, in the same transaction.

pub(super) mod agents;
pub(super) mod conversations;
pub(super) mod counts;
pub(super) mod entities;
pub(super) mod episodes;
pub(super) mod facts;
pub(super) mod forgotten;
pub(super) mod jobs;
pub(super) mod recalls;
pub(super) mod recount;
pub(super) mod toggles;

use agentd_store::{Args, ChangeLog};

/// Which episodes the search indexes have to look at again.
pub(super) const EPISODES: ChangeLog = ChangeLog::new("memory.episodes");

/// The condition of an episode whose agent was not deleted. Rows of deleted agents are hidden and count for nothing before
/// they are purged.
const NOT_DELETED: &str =
    "NOT EXISTS (SELECT 1 FROM agents WHERE agents.id = episodes.agent_id AND agents.deleted_at IS NOT NULL)";

/// `$n, $n+1, …` for a list of values, which are pushed.
fn placeholders<T: agentd_store::IntoValue>(args: &mut Args, values: impl IntoIterator<Item = T>) -> String {
    let places: Vec<String> = values.into_iter().map(|value| format!("${}", args.push(value))).collect();
    places.join(", ")
}
