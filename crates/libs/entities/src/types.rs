//! Types of an extraction.

use std::fmt;
use std::ops::Range;

macro_rules! names {
    ($type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            /// All variants, in a fixed order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the stable name that is stored and displayed.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Parses a name returned by [`Self::as_str`].
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// Type of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntityType {
    /// Programming language or natural language.
    Language,
    Framework,
    /// Software, hardware, service or protocol.
    Tool,
    /// Topic, for example of computing, business, health, life or hobbies.
    Concept,
    Person,
    Organization,
    Place,
}

names!(EntityType {
    Language = "language",
    Framework = "framework",
    Tool = "tool",
    Concept = "concept",
    Person = "person",
    Organization = "organization",
    Place = "place",
});

impl EntityType {
    /// Whether the type is a language, a framework or a tool.
    #[must_use]
    pub const fn is_technical(self) -> bool {
        matches!(self, Self::Language | Self::Framework | Self::Tool)
    }
}

/// Type of a relation; read as "source … target".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RelationType {
    Uses,
    Prefers,
    Dislikes,
    WorksAt,
    StudiesAt,
    LivesIn,
    BornIn,
    Visited,
    Knows,
    PartOf,
    LocatedIn,
    Created,
    ParentOf,
    ChildOf,
    SiblingOf,
    SpouseOf,
    /// Relative of another degree: aunt, cousin, grandparent.
    RelativeOf,
    /// Named in the same sentence, without further information.
    CoOccurs,
}

names!(RelationType {
    Uses = "uses",
    Prefers = "prefers",
    Dislikes = "dislikes",
    WorksAt = "works_at",
    StudiesAt = "studies_at",
    LivesIn = "lives_in",
    BornIn = "born_in",
    Visited = "visited",
    Knows = "knows",
    PartOf = "part_of",
    LocatedIn = "located_in",
    Created = "created",
    ParentOf = "parent_of",
    ChildOf = "child_of",
    SiblingOf = "sibling_of",
    SpouseOf = "spouse_of",
    RelativeOf = "relative_of",
    CoOccurs = "co_occurs",
});

/// Occurrence of an entity in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// Display name: the spelling in the gazetteer, otherwise that of the text.
    pub name: String,
    /// Key that is independent of case, accents and aliases; unique together with the type.
    pub key: String,
    pub entity_type: EntityType,
    /// Byte range in the text, on character boundaries.
    pub range: Range<usize>,
}

impl Mention {
    #[must_use]
    pub fn entity(&self) -> EntityRef {
        EntityRef { key: self.key.clone(), entity_type: self.entity_type }
    }
}

/// Name that a tagger found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedName {
    /// Byte range in the text.
    pub range: Range<usize>,
    /// Type of the entity; `None` for anything but a person, an organization or a place, which the word lists may know.
    pub entity_type: Option<EntityType>,
}

/// Identity of an entity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntityRef {
    pub key: String,
    pub entity_type: EntityType,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Relation {
    pub source: EntityRef,
    pub target: EntityRef,
    pub relation_type: RelationType,
    /// Above 0, at most 1. Several statements in one text are combined as `1 - (1 - a)(1 - b)`.
    pub weight: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extraction {
    /// Mentions in text order, without overlaps.
    pub mentions: Vec<Mention>,
    /// Relations, each pair and type once, strongest first. For `co_occurs`, the smaller entity is the source.
    pub relations: Vec<Relation>,
    /// Whether a limit was reached and something was dropped.
    pub is_truncated: bool,
}

/// Entity at the tokens `start..end`.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) entity_type: EntityType,
    /// Index in the word lists.
    pub(crate) entry: Option<usize>,
}
