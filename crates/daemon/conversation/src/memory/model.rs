//! Episodes and entities as values, and what is taken in.

use agentd_base::{Edge, FieldProblem, Problems, Timestamp};
use agentd_engine::agents::AgentId;

agentd_base::typed_id!(
    /// The id of an episode.
    EpisodeId,
    "ep"
);
agentd_base::typed_id!(
    /// The id of an entity.
    EntityId,
    "ent"
);
agentd_store::stored_ids!(EpisodeId, EntityId);

/// Longer texts belong into files; this is what is embedded and indexed as one episode.
pub(super) const MAX_CONTENT_CHARACTERS: usize = 50_000;
const MAX_SUMMARY_CHARACTERS: usize = 4_000;
const MAX_TOPICS: usize = 32;
const MAX_TOPIC_CHARACTERS: usize = 100;
const MAX_SOURCE_CHARACTERS: usize = 64;

/// A share as it is stored: in millionths, so that sums over many are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Millionths(pub i64);

impl Millionths {
    /// `value` is finite and small.
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

/// Something that was said, done or learned.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// The order of creation; what the indexes know it by.
    pub number: i64,
    pub id: EpisodeId,
    pub agent_id: Option<AgentId>,
    pub source: String,
    pub content: String,
    pub summary: Option<String>,
    pub topics: Vec<String>,
    pub importance: Millionths,
    pub valence: Millionths,
    /// How often it was recalled or read.
    pub access_count: u64,
    /// The newer episode that says otherwise.
    pub superseded_by: Option<EpisodeId>,
    /// Made from text that others wrote.
    pub is_untrusted: bool,
    pub occurred_at: Timestamp,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub entities: Vec<Entity>,
}

/// The source of what hooks store.
pub const FROM_HOOKS: &str = "hook";

impl Episode {
    /// Whether agents are shown it: what is theirs, and what the owner stored for all of them. What a hook stored for
    /// no agent may be a stranger's words, and is there only for who looks through the memory.
    #[must_use]
    pub(crate) fn is_shown_to_agents(&self) -> bool {
        self.agent_id.is_some() || self.source != FROM_HOOKS
    }
}

/// A thing, person, place or idea that episodes speak of.
#[derive(Debug, Clone, PartialEq)]
pub struct Entity {
    pub number: i64,
    pub id: EntityId,
    pub name: String,
    pub entity_type: String,
    /// In all episodes.
    pub mentions: u64,
}

/// What an episode is made from.
#[derive(Debug, Clone, Default)]
pub struct NewEpisode {
    pub agent_id: Option<AgentId>,
    pub content: String,
    pub summary: Option<String>,
    pub source: Option<String>,
    /// What it is made from, where it must be made only once.
    pub origin: Option<String>,
    pub topics: Vec<String>,
    /// Made from text that others wrote.
    pub is_untrusted: bool,
    /// `None`: estimated from the text.
    pub importance: Option<f64>,
    pub valence: Option<f64>,
    pub occurred_at: Option<Timestamp>,
}

/// What somebody wants to be remembered, as it was given.
#[derive(Debug, Clone, Default)]
pub struct CreateEpisode {
    /// Whose: the id or the `svc_name`; nobody's without one.
    pub agent: Option<String>,
    pub episode: NewEpisode,
    /// The date or time when it happened; `None`: now.
    pub occurred_at: Option<String>,
}

impl CreateEpisode {
    /// Validates all fields and normalizes them.
    ///
    /// # Errors
    /// Every bad field.
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
    /// Every bad field.
    pub fn checked(mut self) -> Result<Self, Vec<FieldProblem>> {
        let mut problems = Problems::new();
        self.normalize(&mut problems);
        problems.into_result().map(|()| self)
    }

    fn normalize(&mut self, problems: &mut Problems) {
        self.content = cleaned(&self.content);
        if self.content.is_empty() {
            problems.add("content", "must hold a text");
        }
        limit(problems, "content", &self.content, MAX_CONTENT_CHARACTERS);
        self.summary = self.summary.as_deref().map(cleaned).filter(|summary| !summary.is_empty());
        limit(problems, "summary", self.summary.as_deref().unwrap_or_default(), MAX_SUMMARY_CHARACTERS);
        self.source = self.source.as_deref().map(cleaned).filter(|source| !source.is_empty());
        let source = self.source.as_deref().unwrap_or_default();
        limit(problems, "source", source, MAX_SOURCE_CHARACTERS);
        problems.require(!source.chars().any(char::is_control), "source", "must not hold control characters");
        let mut topics: Vec<String> = Vec::new();
        for (place, topic) in self.topics.iter().enumerate() {
            let topic = cleaned(topic);
            limit(problems, &format!("topics[{place}]"), &topic, MAX_TOPIC_CHARACTERS);
            if !topic.is_empty() && !topics.contains(&topic) {
                topics.push(topic);
            }
        }
        self.topics = topics;
        problems.require(self.topics.len() <= MAX_TOPICS, "topics", format!("must not be more than {MAX_TOPICS}"));
        within(problems, "importance", self.importance, 0.0);
        within(problems, "valence", self.valence, -1.0);
    }
}

fn limit(problems: &mut Problems, field: &str, text: &str, most: usize) {
    // Counting characters of what cannot be too long anyway would be for nothing.
    if text.len() > most && text.chars().count() > most {
        problems.add(field, format!("must not be longer than {most} characters; put longer texts into a file"));
    }
}

fn within(problems: &mut Problems, field: &str, value: Option<f64>, least: f64) {
    if value.is_some_and(|value| !(least..=1.0).contains(&value)) {
        problems.add(field, format!("must be between {least} and 1"));
    }
}

/// Without blanks around, and without the one character that PostgreSQL cannot store.
fn cleaned(text: &str) -> String {
    text.trim().replace('\0', "\u{fffd}")
}

/// Which of ten equal parts of 0..=1 a share lies in; 1 itself is in the last.
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
    fn every_bad_field_is_named() {
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
    fn what_is_right_has_one_spelling() {
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
    fn ten_parts_hold_every_share() {
        let bucket = |share| importance_bucket(Millionths::of(share));
        assert_eq!([0.0, 0.099, 0.1, 0.55, 0.999, 1.0].map(bucket), [0, 0, 1, 5, 9, 9]);
    }
}
