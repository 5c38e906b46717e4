//! Entities of a text, from tagged names and word lists of software and topics, and their relations. Also clusters of
//! vectors with labels, repeated texts, simple facts, and the importance of a text.
//!
//! Invariants
//! - Pure functions: no IO, no clock, no randomness; one input has one answer, on every machine.
//! - Nothing panics, whatever the text is. Time grows with its length and no faster; answers are
//!   bounded ([`MAX_TEXT_BYTES`], [`MAX_MENTIONS`], [`MAX_RELATIONS`]).
//! - Precision before recall: a word that is also something else (Go, May, Reading) is an entity only
//!   with evidence.
//!
//! Deliberately absent: models (the tagger is one of `inference`), storage, and languages other than English for what
//! is not a name. Scripts without spaces are left alone, apart from the Latin words inside them.

mod aliases;
mod asks;
pub mod cluster;
mod cues;
mod dates;
mod duplicate;
mod evaluate;
mod extract;
mod facts;
mod fold;
mod gazetteer;
mod known;
mod proper_names;
mod relations;
mod text;
mod types;
mod verbs;
mod wording;

pub use asks::only_asks;
pub use duplicate::{Fingerprint, NEAR_DUPLICATE_SIMILARITY, near_duplicate};
pub use evaluate::{Evaluation, evaluate};
pub use extract::{MAX_MENTIONS, MAX_TEXT_BYTES, extract, extract_as, key_of_name, known_name};
pub use facts::{FIRST_PERSON, FactKey, MAX_FACTS, fact_key, fact_keys};
pub use fold::fold;
pub use proper_names::proper_names;
pub use relations::MAX_RELATIONS;
pub use types::{EntityRef, EntityType, Extraction, Mention, Relation, RelationType, TaggedName};
pub use wording::Wording;
