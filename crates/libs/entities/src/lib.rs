//! Entities and relations in a text, from tagged names and word lists of software and topics. Also clusters of vectors
//! with labels, repeated texts, simple facts, and the importance of a text.
//!
//! Invariants:
//! - Pure functions: no IO, clock or randomness; the same input gives the same result on every machine.
//! - No text causes a panic. Time is linear in the length; results are bounded ([`MAX_TEXT_BYTES`], [`MAX_MENTIONS`],
//!   [`MAX_RELATIONS`]).
//! - Precision before recall: an ambiguous word (Go, May, Reading) is an entity only with further evidence.
//!
//! Out of scope: models (the tagger is in `inference`), storage, and languages other than English for anything but
//! names. Text in scripts without spaces is ignored, except for Latin words in it.

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

pub use asks::is_request_only;
pub use duplicate::{Fingerprint, NEAR_DUPLICATE_SIMILARITY, near_duplicate};
pub use evaluate::{Evaluation, evaluate};
pub use extract::{MAX_MENTIONS, MAX_TEXT_BYTES, extract, extract_as, key_of_name, known_name};
pub use facts::{FIRST_PERSON, FactKey, MAX_FACTS, fact_key, fact_keys};
pub use fold::fold;
pub use proper_names::proper_names;
pub use relations::MAX_RELATIONS;
pub use types::{EntityRef, EntityType, Extraction, Mention, Relation, RelationType, TaggedName};
pub use wording::Wording;
