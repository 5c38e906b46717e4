//! Values of memory: episodes, entities, and the validated input for new episodes.

use agentd_base::{Edge, FieldProblem, Problems, Timestamp};
use agentd_engine::agents::AgentId;

agentd_base::typed_id!(
    /// Id of an episode.
    EpisodeId,
    "ep"
);
agentd_base::typed_id!(
    /// Id of an entity.
    EntityId,
    "ent"
);
agentd_store::stored_ids!(EpisodeId, EntityId);

/// An episode is embedded and indexed as a whole; longer texts belong in files.
pub(super) const MAX_CONTENT_CHARACTERS: usize = 50_000;
const MAX_SUMMARY_CHARACTERS: usize = 4_000;
const MAX_TOPICS: usize = 32;
const MAX_TOPIC_CHARACTERS: usize = 100;
const MAX_SOURCE_CHARACTERS: usize = 64;

/// Fraction stored in millionths, so that sums are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Millionths(pub i64);

impl Millionths {
    /// Converts a finite, small value.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "checked to lie in -1..=1 before")]
    pub fn of(value: f64) -> Self {
        Self((value * 1e6).round() as i64)
    }

    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a share of one")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// Statement, event or insight stored in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Sequential number by creation; the key in the search index.
    pub number: i64,
    pub id: EpisodeId,
    pub agent_id: Option<AgentId>,
    pub source: String,
    pub content: String,
    pub summary: Option<String>,
    pub topics: Vec<String>,
    pub importance: Millionths,
    pub valence: Millionths,
    /// Number of times it was recalled or read.
    pub access_count: u64,
    /// Newer episode that contradicts this one.
    pub superseded_by: Option<EpisodeId>,
    /// Whether it was derived from untrusted text.
    pub is_untrusted: bool,
    pub occurred_at: Timestamp,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub entities: Vec<Entity>,
}

/// Source of episodes stored by hooks.
pub const HOOK_SOURCE: &str = "hook";

impl Episode {
    /// Returns whether agents may see it: their own episodes and those the owner stored for all agents. An episode that
    /// a hook stored for no agent may contain untrusted text, so only the owner sees it.
    #[must_use]
    pub(crate) fn is_visible_to_agents(&self) -> bool {
        self.agent_id.is_some() || self.source != HOOK_SOURCE
    }
}

/// Thing, person, place or concept that episodes mention.
#[derive(Debug, Clone, PartialEq)]
pub struct Entity {
    pub number: i64,
    pub id: EntityId,
    pub name: String,
    pub entity_type: String,
    /// Total number of mentions in all episodes.
    pub mentions: u64,
}

/// Input for a new episode.
#[derive(Debug, Clone, Default)]
pub struct NewEpisode {
    pub agent_id: Option<AgentId>,
    pub content: String,
    pub summary: Option<String>,
    pub source: Option<String>,
    /// Identifies what it is derived from, so that only one episode is stored for it.
    pub origin: Option<String>,
    pub topics: Vec<String>,
    /// Whether it was derived from untrusted text.
    pub is_untrusted: bool,
    /// Estimated from the text if `None`.
    pub importance: Option<f64>,
    pub valence: Option<f64>,
    pub occurred_at: Option<Timestamp>,
}

/// Unvalidated request to store an episode.
#[derive(Debug, Clone, Default)]
pub struct CreateEpisode {
    /// Id or `svc_name` of the agent; `None` for an episode of no agent.
    pub agent: Option<String>,
    pub episode: NewEpisode,
    /// Date or time when it happened; the current time if `None`.
    pub occurred_at: Option<String>,
}

impl CreateEpisode {
    /// Validates all fields and normalizes them.
    ///
    /// # Errors
    /// All invalid fields.
    pub fn checked(self) -> Result<NewEpisode, Vec<FieldProblem>> {
        let mut problems = Problems::new();
        let occurred_at = Timestamp::read_field("occurred_at", self.occurred_at.as_deref(), Edge::First, &mut problems);
        let mut episode = NewEpisode { occurred_at, ..self.episode };
        episode.normalize(&mut problems);
        problems.into_result().map(|()| episode)
    }
}

impl NewEpisode {
    /// Validates all fields and normalizes them.
    ///
    /// # Errors
    /// All invalid fields.
    pub fn checked(mut self) -> Result<Self, Vec<FieldProblem>> {
        let mut problems = Problems::new();
        self.normalize(&mut problems);
        problems.into_result().map(|()| self)
    }

    fn normalize(&mut self, problems: &mut Problems) {
        self.content = normalize_text(&self.content);
        if self.content.is_empty() {
            problems.add("content", "must not be blank");
        }
        require_max_length(problems, "content", &self.content, MAX_CONTENT_CHARACTERS);
        self.summary = self.summary.as_deref().map(normalize_text).filter(|summary| !summary.is_empty());
        require_max_length(problems, "summary", self.summary.as_deref().unwrap_or_default(), MAX_SUMMARY_CHARACTERS);
        self.source = self.source.as_deref().map(normalize_text).filter(|source| !source.is_empty());
        let source = self.source.as_deref().unwrap_or_default();
        require_max_length(problems, "source", source, MAX_SOURCE_CHARACTERS);
        problems.require(!source.chars().any(char::is_control), "source", "must not contain control characters");
        let mut topics: Vec<String> = Vec::new();
        for (index, topic) in self.topics.iter().enumerate() {
            let topic = normalize_text(topic);
            require_max_length(problems, &format!("topics[{index}]"), &topic, MAX_TOPIC_CHARACTERS);
            if !topic.is_empty() && !topics.contains(&topic) {
                topics.push(topic);
            }
        }
        self.topics = topics;
        problems.require(self.topics.len() <= MAX_TOPICS, "topics", format!("must have at most {MAX_TOPICS} entries"));
        require_range(problems, "importance", self.importance, 0.0);
        require_range(problems, "valence", self.valence, -1.0);
    }
}

fn require_max_length(problems: &mut Problems, field: &str, text: &str, max: usize) {
    // Avoids counting the characters of texts that cannot exceed the limit.
    if text.len() > max && text.chars().count() > max {
        problems.add(field, format!("must have at most {max} characters; store longer text in a file"));
    }
}

fn require_range(problems: &mut Problems, field: &str, value: Option<f64>, min: f64) {
    if value.is_some_and(|value| !(min..=1.0).contains(&value)) {
        problems.add(field, format!("must be between {min} and 1"));
    }
}

/// Trims the text and replaces NUL, which PostgreSQL cannot store.
fn normalize_text(text: &str) -> String {
    text.trim().replace('\0', "\u{fffd}")
}

/// Returns the tenth of 0..=1 that the importance falls into; 1 falls into the last.
#[must_use]
pub(super) fn importance_bucket(importance: Millionths) -> usize {
    usize::try_from(importance.0 / 100_000).unwrap_or(0).min(9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(new: NewEpisode) -> Vec<String> {
        new.checked().unwrap_err().into_iter().map(|problem| problem.field).collect()
    }

    #[test]
    fn episode_with_invalid_fields_reports_each_field() {
        let new = NewEpisode {
            content: " \n ".into(),
            summary: Some("s".repeat(MAX_SUMMARY_CHARACTERS + 1)),
            source: Some("a\u{7}b".into()),
            topics: vec!["ok".into(), "t".repeat(101)],
            importance: Some(1.01),
            valence: Some(f64::NAN),
            ..NewEpisode::default()
        };
        assert_eq!(problems(new), ["content", "summary", "source", "topics[1]", "importance", "valence"]);
    }

    #[test]
    fn valid_episode_is_normalized() {
        let new = NewEpisode {
            content: " a\0b ".into(),
            source: Some("  ".into()),
            topics: vec![" rust ".into(), "rust".into(), String::new()],
            importance: Some(0.0),
            valence: Some(-1.0),
            ..NewEpisode::default()
        };
        let new = new.checked().unwrap();
        assert_eq!((new.content.as_str(), new.source, new.topics), ("a\u{fffd}b", None, vec!["rust".to_owned()]));
        let long = NewEpisode { content: "é".repeat(MAX_CONTENT_CHARACTERS), ..NewEpisode::default() };
        assert!(long.checked().is_ok());
    }

    #[test]
    fn importance_bucket_covers_the_whole_range() {
        let bucket = |share| importance_bucket(Millionths::of(share));
        assert_eq!([0.0, 0.099, 0.1, 0.55, 0.999, 1.0].map(bucket), [0, 0, 1, 5, 9, 9]);
    }
}
