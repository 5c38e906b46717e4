//! Verb patterns between two entities, with the relation and the types of entities that they relate.

use crate::text::Text;
use crate::types::EntityType::{self, Concept, Framework, Language, Organization, Person, Place, Tool};
use crate::types::RelationType::{
    self, BornIn, Created, Dislikes, Knows, LivesIn, LocatedIn, PartOf, Prefers, SpouseOf, StudiesAt, Uses, Visited,
    WorksAt,
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    pub(crate) relation: RelationType,
    pub(crate) sources: &'static [EntityType],
    pub(crate) targets: &'static [EntityType],
    /// Whether the grammatical subject is the target: `was created by`.
    pub(crate) is_passive: bool,
}

const PERSONS: &[EntityType] = &[Person];
const ACTORS: &[EntityType] = &[Person, Organization];
const USERS: &[EntityType] = &[Person, Organization, Tool, Framework, Language];
const USABLE: &[EntityType] = &[Language, Framework, Tool, Concept];
const TECHNICAL: &[EntityType] = &[Language, Framework, Tool];
const LIKABLE: &[EntityType] = &[Language, Framework, Tool, Concept, Place, Organization, Person];
const ORGANIZATIONS: &[EntityType] = &[Organization];
const PLACES: &[EntityType] = &[Place];
const WORKS: &[EntityType] = &[Organization, Tool, Framework, Language];
const LOCATED: &[EntityType] = &[Organization, Place];
const MEMBERS: &[EntityType] = &[Organization, Tool, Framework, Place, Person];

const fn active(relation: RelationType, sources: &'static [EntityType], targets: &'static [EntityType]) -> Pattern {
    Pattern { relation, sources, targets, is_passive: false }
}

const fn passive(relation: RelationType, sources: &'static [EntityType], targets: &'static [EntityType]) -> Pattern {
    Pattern { relation, sources, targets, is_passive: true }
}

/// Returns the pattern whose first word is token `at`, and the end of its words.
pub(crate) fn pattern_at(text: &Text<'_>, at: usize) -> Option<(Pattern, usize)> {
    let next = text.word_at(at, at + 1);
    let third = text.word_at(at, at + 2);
    let (pattern, length) = match (text.folded(at), next) {
        ("use" | "uses" | "used" | "using" | "adopted" | "adopt", next)
            if !(next == "to" && text.folded(at) == "used") =>
        {
            (active(Uses, USERS, USABLE), 1)
        }
        (
            "written" | "built" | "coded" | "implemented" | "deployed" | "hosted" | "developed",
            "in" | "with" | "on" | "to",
        )
        | (
            "runs" | "run" | "running" | "relies" | "rely" | "depends" | "depend" | "based" | "builds",
            "on" | "with" | "upon",
        )
        | ("switched" | "migrated", "to")
        | ("code" | "codes" | "program" | "programs" | "write" | "writes" | "wrote", "in")
        | ("powered", "by") => (active(Uses, USERS, TECHNICAL), 2),
        ("deploy" | "deploys", "to" | "with" | "on") => (active(Uses, USERS, TECHNICAL), 2),
        (
            "prefer" | "prefers" | "preferred" | "love" | "loves" | "loved" | "like" | "likes" | "liked" | "enjoy"
            | "enjoys" | "enjoyed" | "adore" | "adores",
            _,
        ) => (active(Prefers, ACTORS, LIKABLE), 1),
        ("fan", "of") | ("into", "the") => (active(Prefers, ACTORS, LIKABLE), 2),
        (
            "hate" | "hates" | "hated" | "dislike" | "dislikes" | "disliked" | "despise" | "despises" | "avoid"
            | "avoids",
            _,
        ) => (active(Dislikes, ACTORS, LIKABLE), 1),
        ("can't", "stand") => (active(Dislikes, ACTORS, LIKABLE), 2),
        (
            "work" | "works" | "worked" | "working" | "interning" | "employed" | "job" | "engineer" | "manager"
            | "developer" | "ceo" | "cto" | "cfo" | "director" | "consultant" | "intern" | "nurse" | "analyst",
            "at" | "for" | "with" | "by" | "of",
        ) => (active(WorksAt, PERSONS, ORGANIZATIONS), 2),
        ("joined" | "joins" | "joining", _) => (active(WorksAt, PERSONS, ORGANIZATIONS), 1),
        ("study" | "studies" | "studied" | "studying" | "graduated" | "enrolled" | "graduate", _) => {
            (active(StudiesAt, PERSONS, ORGANIZATIONS), 1)
        }
        ("live" | "lives" | "living" | "resides" | "reside" | "residing" | "settled", "in" | "near" | "at") => {
            (active(LivesIn, PERSONS, PLACES), 2)
        }
        ("moved" | "moves" | "relocated" | "emigrated" | "moving", "to") => (active(LivesIn, PERSONS, PLACES), 2),
        ("based", "in") if third != "part" => (active(LivesIn, PERSONS, PLACES), 2),
        ("born", "in") => (active(BornIn, PERSONS, PLACES), 2),
        ("visit" | "visits" | "visited" | "visiting" | "toured", _) => (active(Visited, ACTORS, PLACES), 1),
        (
            "went" | "flew" | "travelled" | "traveled" | "drove" | "trip" | "going" | "flying" | "travelling"
            | "traveling",
            "to",
        ) => (active(Visited, ACTORS, PLACES), 2),
        ("met" | "meets" | "knows" | "know" | "befriended" | "hired", _) => (active(Knows, PERSONS, PERSONS), 1),
        ("friends" | "friend", "with" | "of") => (active(Knows, PERSONS, PERSONS), 2),
        ("part" | "member" | "subsidiary" | "division" | "module" | "branch" | "unit", "of") => {
            (active(PartOf, MEMBERS, MEMBERS), 2)
        }
        ("belongs" | "belong" | "belonging", "to") => (active(PartOf, MEMBERS, MEMBERS), 2),
        ("located" | "headquartered" | "situated", "in" | "near" | "at") => (active(LocatedIn, LOCATED, PLACES), 2),
        ("capital" | "city" | "town" | "suburb" | "village", "of" | "in") => (active(LocatedIn, PLACES, PLACES), 2),
        (
            "created" | "founded" | "invented" | "developed" | "made" | "designed" | "started" | "built" | "maintained"
            | "launched",
            "by",
        ) => (passive(Created, WORKS, ACTORS), 2),
        (
            "created" | "creates" | "founded" | "invented" | "developed" | "designed" | "cofounded" | "launched"
            | "started" | "released" | "built",
            _,
        ) => (active(Created, ACTORS, WORKS), 1),
        ("married" | "engaged", "to") => (active(SpouseOf, PERSONS, PERSONS), 2),
        ("married" | "marries" | "marrying", _) => (active(SpouseOf, PERSONS, PERSONS), 1),
        _ => return None,
    };
    Some((pattern, at + length))
}
