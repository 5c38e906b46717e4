//! What an extraction is made of.

use std::fmt;
use std::ops::Range;

macro_rules! names {
    ($type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            /// Every one, in a fixed order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The stable name that is stored and shown.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The reverse of [`Self::as_str`].
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

/// What kind of thing an entity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntityType {
    /// A programming language or a natural one.
    Language,
    Framework,
    /// Software, hardware, services and protocols that one works with.
    Tool,
    /// A topic: of computing, business, health, life, hobbies.
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
    /// Languages, frameworks and tools.
    #[must_use]
    pub const fn is_technical(self) -> bool {
        matches!(self, Self::Language | Self::Framework | Self::Tool)
    }
}

/// How two entities are related; read "source … target".
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
    /// Family of another degree: aunt, cousin, grandparent.
    RelativeOf,
    /// Named in one sentence, and nothing more is known.
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

/// One place in the text where an entity is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// As one would show it: the gazetteer's spelling, else the text's.
    pub name: String,
    /// One for each thing whatever its case, accents and aliases; unique together with the type.
    pub key: String,
    pub entity_type: EntityType,
    /// In bytes of the text, on character boundaries.
    pub range: Range<usize>,
}

impl Mention {
    #[must_use]
    pub fn entity(&self) -> EntityRef {
        EntityRef { key: self.key.clone(), entity_type: self.entity_type }
    }
}

/// A name that a tagger found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedName {
    /// In bytes of the text.
    pub range: Range<usize>,
    /// `None`: something else than a person, an organization or a place, which the word lists may know.
    pub entity_type: Option<EntityType>,
}

/// An entity's identity.
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
    /// Above 0, at most 1. Several statements in one text add up as `1 - (1 - a)(1 - b)`.
    pub weight: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extraction {
    /// In the order of the text, without overlaps.
    pub mentions: Vec<Mention>,
    /// Each pair and type once, strongest first. `co_occurs` has the smaller entity as its source.
    pub relations: Vec<Relation>,
    /// Whether a limit was met and something was left out.
    pub is_truncated: bool,
}

/// An entity at the tokens `start..end`.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) entity_type: EntityType,
    /// Its place in the word lists.
    pub(crate) entry: Option<usize>,
}
