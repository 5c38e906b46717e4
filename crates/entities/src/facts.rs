//! Simple facts, so that a newer one can take an older one's place: "I live in Berlin", "Anna works at
//! Siemens now", "my favourite colour is blue", "I no longer drink coffee".
//!
//! Precision before recall: only the plain indicative with a known subject (the first person, a named
//! person, or the speaker's relative). Questions, conditions, wishes, reports of what somebody said,
//! the past and whatever is uncertain are no facts.
//!
//! An attribute either has one value at a time (`lives_in`, `works_at`, `age`, `favorite color`), or
//! carries what it is about (`like coffee`), so that liking coffee never contradicts liking tea.

use crate::cues;
use crate::extract::extract_from;
use crate::text::{Kind, Text};
use crate::types::{EntityType, Mention};

/// The subject of what is said in the first person by somebody who is not named.
pub const FIRST_PERSON: &str = "self";
/// How many facts are read from one text.
pub const MAX_FACTS: usize = 32;
const MAX_VALUE_WORDS: usize = 6;
const MAX_HABIT_TOKENS: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FactKey {
    /// A person's key, [`FIRST_PERSON`], or one of these and a kinship: `self sister`.
    pub subject: String,
    pub attribute: String,
    pub value: String,
    /// Whether it is so; `false` for "no longer" and "not".
    pub polarity: bool,
}

impl FactKey {
    /// Whether both cannot hold at once: another value of the same attribute, or the same one denied.
    #[must_use]
    pub fn contradicts(&self, other: &Self) -> bool {
        self.subject == other.subject
            && self.attribute == other.attribute
            && match (self.polarity, other.polarity) {
                (true, true) => self.value != other.value,
                (false, false) => false,
                _ => self.value == other.value,
            }
    }
}

/// The fact that a text states, if it states exactly one.
#[must_use]
pub fn fact_key(text: &str) -> Option<FactKey> {
    let mut facts = fact_keys(text, None);
    if facts.len() == 1 { facts.pop() } else { None }
}

/// Every simple fact of a text, in its order, at most [`MAX_FACTS`]. `speaker` is who "I" is; a prefix
/// (`Anna: …`) wins.
#[must_use]
pub fn fact_keys(text: &str, speaker: Option<&str>) -> Vec<FactKey> {
    let (tokens, extraction) = extract_from(text, None);
    let mut facts = facts_in(&tokens, &extraction.mentions);
    if let Some(speaker) = speaker.map(crate::fold).filter(|speaker| !speaker.is_empty()) {
        for fact in &mut facts {
            if fact.subject == FIRST_PERSON {
                fact.subject.clone_from(&speaker);
            } else if let Some(kin) = fact.subject.strip_prefix("self ") {
                fact.subject = format!("{speaker} {kin}");
            }
        }
    }
    facts
}

pub(crate) fn facts_in(text: &Text<'_>, mentions: &[Mention]) -> Vec<FactKey> {
    let mut facts = Vec::new();
    let mut speaker = FIRST_PERSON.to_owned();
    let mut next = 0;
    for range in &text.sentences {
        let (Some(first), Some(last)) = (text.get(range.start), text.get(range.end - 1)) else { continue };
        while mentions.get(next).is_some_and(|mention| mention.range.start < first.start) {
            next += 1;
        }
        let until = next + mentions[next..].iter().take_while(|mention| mention.range.start < last.end).count();
        let own = &mentions[next..until];
        let mut reader = Reader { text, mentions: own, at: range.start, end: range.end };
        if let Some(prefix) = own
            .first()
            .filter(|mention| mention.entity_type == EntityType::Person && mention.range.start == first.start)
        {
            let after = reader.token_after(prefix.range.end);
            if text.folded(after) == ":" && first.starts_line {
                speaker.clone_from(&prefix.key);
                reader.at = after + 1;
            }
        }
        if facts.len() < MAX_FACTS
            && let Some(fact) = reader.fact(&speaker)
        {
            facts.push(fact);
        }
    }
    facts
}

/// Words that make a statement uncertain, foreign or past.
const UNCERTAIN: [&str; 34] = [
    "if",
    "would",
    "could",
    "should",
    "might",
    "may",
    "maybe",
    "perhaps",
    "wish",
    "think",
    "thinks",
    "guess",
    "hope",
    "said",
    "says",
    "told",
    "used",
    "wonder",
    "probably",
    "almost",
    "unless",
    "imagine",
    "pretend",
    "suppose",
    "supposedly",
    "when",
    "dream",
    "dreamed",
    "before",
    "until",
    "were",
    "had",
    "want",
    "wants",
];

struct Reader<'s, 't, 'a> {
    text: &'s Text<'a>,
    mentions: &'t [Mention],
    at: usize,
    end: usize,
}

impl Reader<'_, '_, '_> {
    fn word(&self, offset: usize) -> &str {
        let at = self.at + offset;
        if at < self.end { self.text.folded(at) } else { "" }
    }

    fn token_after(&self, byte: usize) -> usize {
        let tokens = &self.text.tokens;
        tokens.partition_point(|token| token.start < byte)
    }

    fn take(&mut self, words: &[&str]) -> bool {
        let fits = words.contains(&self.word(0));
        self.at += usize::from(fits);
        fits
    }

    fn skip(&mut self, words: &[&str]) {
        while self.take(words) {}
    }

    /// The mention that starts at the current token.
    fn mention(&self, allowed: &[EntityType]) -> Option<&Mention> {
        let token = self.text.get(self.at).filter(|_| self.at < self.end)?;
        self.mentions
            .iter()
            .find(|mention| mention.range.start == token.start && allowed.contains(&mention.entity_type))
    }

    fn fact(&mut self, speaker: &str) -> Option<FactKey> {
        let is_question = self.text.folded(self.end - 1) == "?";
        let is_uncertain = (self.at..self.end).take(64).any(|at| UNCERTAIN.contains(&self.text.folded(at)));
        if is_question || is_uncertain {
            return None;
        }
        self.skip(&[
            "well", "so", "actually", "oh", "hey", "hi", "yes", "yeah", "no", "and", "also", "fyi", "now", "btw", ",",
            "!", "-", "*",
        ]);
        if matches!(self.word(0), "my" | "our") {
            return self.possession(speaker);
        }
        if self.take(&["i'm"]) {
            return self.state(speaker.to_owned(), true);
        }
        if self.take(&["i've"]) {
            return self.predicate(speaker.to_owned());
        }
        if self.take(&["i"]) {
            return self.predicate(speaker.to_owned());
        }
        let person = self.mention(&[EntityType::Person])?;
        let (key, end) = (person.key.clone(), person.range.end);
        self.at = self.token_after(end);
        if self.text.get(self.at).is_some_and(|token| token.kind == Kind::Possessive) && self.at < self.end {
            if self.text.folded(self.at) == "'s" && self.is_noun_ahead() {
                self.at += 1;
                return self.attribute(&key);
            }
            return None;
        }
        self.predicate(key)
    }

    fn is_noun_ahead(&self) -> bool {
        matches!(self.word(1), "favourite" | "favorite")
            || SINGLE_VALUED.contains(&self.word(1))
            || SINGLE_VALUED.contains(&&*format!("{} {}", self.word(1), self.word(2)))
    }

    /// After "my": a relative, or something of one's own.
    fn possession(&mut self, speaker: &str) -> Option<FactKey> {
        self.at += 1;
        self.skip(&["new", "current", "own"]);
        let is_relative = self.text.get(self.at)?.has(cues::KINSHIP | cues::ACQUAINTANCE);
        let kin = self.word(0).to_owned();
        let next = self.text.get(self.at + 1).filter(|_| self.at + 1 < self.end)?;
        if !is_relative || SINGLE_VALUED.contains(&&*kin) && matches!(self.word(1), "is") {
            return self.attribute(speaker);
        }
        self.at += 1;
        if next.kind == Kind::Possessive {
            self.at += 1;
            return self.attribute(&format!("{speaker} {kin}"));
        }
        // "my sister Anna works …" is said of Anna.
        if let Some(person) = self.mention(&[EntityType::Person]) {
            let (key, end) = (person.key.clone(), person.range.end);
            self.at = self.token_after(end);
            return self.predicate(key);
        }
        self.predicate(format!("{speaker} {kin}"))
    }

    /// `favourite colour is blue`, `phone number is …`.
    fn attribute(&mut self, subject: &str) -> Option<FactKey> {
        let is_favorite = self.take(&["favourite", "favorite"]);
        let mut words: Vec<String> = Vec::new();
        while words.len() < 4 && !matches!(self.word(0), "is" | "are" | "isn't" | "was" | "") {
            if self.text.get(self.at)?.kind != Kind::Word {
                return None;
            }
            words.push(if self.word(0) == "colour" { "color".to_owned() } else { self.word(0).to_owned() });
            self.at += 1;
        }
        let noun = words.join(" ");
        if noun.is_empty() || !is_favorite && !SINGLE_VALUED.contains(&&*noun) {
            return None;
        }
        let denied = match self.word(0) {
            "is" | "are" => matches!(self.word(1), "not" | "no"),
            "isn't" => true,
            _ => return None,
        };
        self.at += 1 + usize::from(self.word(1) == "not");
        if self.take(&["no"]) && !self.take(&["longer"]) {
            return None;
        }
        self.skip(&["now", "currently", "definitely", "still", "actually", "called", "named"]);
        let attribute = if is_favorite { format!("favorite {noun}") } else { noun };
        let value = self.value()?;
        Some(FactKey { subject: subject.to_owned(), attribute, value, polarity: !denied })
    }

    /// What a subject does or is.
    fn predicate(&mut self, subject: String) -> Option<FactKey> {
        let mut polarity = true;
        loop {
            match (self.word(0), self.word(1)) {
                ("no", "longer") | ("do" | "does", "not") | ("am" | "is", "no")
                    if self.word(1) != "no" || self.word(2) == "longer" =>
                {
                    if matches!(self.word(0), "am" | "is") {
                        self.at += 3;
                        return self.state(subject, false);
                    }
                    polarity = false;
                    self.at += 2;
                }
                ("don't" | "doesn't" | "never", _) => {
                    polarity = false;
                    self.at += 1;
                }
                ("stopped" | "quit", _) if !matches!(self.word(1), "my" | "the" | "his" | "her" | "at" | "by") => {
                    polarity = false;
                    self.at += 1;
                }
                ("gave" | "given", "up") => {
                    polarity = false;
                    self.at += 2;
                    if !self.word(0).ends_with("ing") {
                        return None;
                    }
                }
                (
                    "now" | "currently" | "just" | "recently" | "still" | "really" | "also" | "have" | "has"
                    | "finally" | "only" | "always" | "actually",
                    _,
                ) => {
                    self.at += 1;
                }
                ("am" | "is", "not") => {
                    self.at += 2;
                    return self.state(subject, false);
                }
                ("isn't", _) => {
                    self.at += 1;
                    return self.state(subject, false);
                }
                ("am" | "is", _) => {
                    self.at += 1;
                    return self.state(subject, true);
                }
                _ => break,
            }
        }
        self.verb(subject, polarity)
    }

    fn verb(&mut self, subject: String, polarity: bool) -> Option<FactKey> {
        let verb = self.word(0).to_owned();
        self.at += 1;
        let fact = |attribute: &str, value: String| {
            Some(FactKey { subject: subject.clone(), attribute: attribute.to_owned(), value, polarity })
        };
        match (verb.as_str(), self.word(0)) {
            ("live" | "lives" | "living", "in") | ("moved" | "relocated", "to") => {
                self.at += 1;
                let value = self.entity(&[EntityType::Place])?;
                fact("lives_in", value)
            }
            ("work" | "works" | "working", "at" | "for") => {
                self.at += 1;
                let value = self.entity(&[EntityType::Organization])?;
                fact("works_at", value)
            }
            ("joined", _) => {
                let value = self.entity(&[EntityType::Organization])?;
                fact("works_at", value)
            }
            ("work" | "works" | "working", "as") => {
                self.at += 1;
                self.skip(&["a", "an", "the"]);
                let value = self.value()?;
                fact("occupation", value)
            }
            ("prefer" | "prefers", _) => self.preference(subject, polarity),
            _ => {
                let (attribute, polarity) = habit(&verb, polarity)?;
                self.skip(&["to"]);
                if attribute == "like" && self.text.folded(self.at - 1) == "to" {
                    return None;
                }
                let from = self.at;
                let value = self.value()?;
                // What is liked is a thing that can be named, not a sentence about it.
                let is_plain = |at: usize| {
                    let token = &self.text.tokens[at];
                    !token.has(cues::FUNCTION | cues::NEGATION | cues::DETERMINER) || token.has(cues::TOPICAL)
                };
                let from = from + usize::from(matches!(self.text.folded(from), "a" | "an" | "the"));
                if self.at > from + MAX_HABIT_TOKENS || !(from..self.at).all(is_plain) {
                    return None;
                }
                Some(FactKey { subject, attribute: format!("{attribute} {value}"), value, polarity })
            }
        }
    }

    fn preference(&mut self, subject: String, polarity: bool) -> Option<FactKey> {
        let one = self.value_until(&["over", "to", "than"])?;
        if !self.take(&["over", "to", "than"]) {
            return None;
        }
        let other = self.value()?;
        let (first, second) = if one < other { (&one, &other) } else { (&other, &one) };
        let attribute = format!("prefer {first} | {second}");
        Some(FactKey { subject, attribute, value: one, polarity })
    }

    /// What follows "am" or "is".
    fn state(&mut self, subject: String, polarity: bool) -> Option<FactKey> {
        let is_denied = self.take(&["not"])
            || self.word(0) == "no" && self.word(1) == "longer" && self.take(&["no"]) && self.take(&["longer"]);
        let polarity = polarity && !is_denied;
        self.skip(&["now", "currently", "still", "really", "also", "actually", "just"]);
        let fact = |attribute: &str, value: String| {
            Some(FactKey { subject: subject.clone(), attribute: attribute.to_owned(), value, polarity })
        };
        if matches!((self.word(1), self.word(2)), ("years" | "year", "old")) {
            let age = self.word(0).to_owned();
            return if age.bytes().all(|byte| byte.is_ascii_digit()) { fact("age", age) } else { None };
        }
        match (self.word(0), self.word(1)) {
            ("living", _) | ("working", _) => self.verb(subject, polarity),
            ("based", "in") => {
                self.at += 2;
                let value = self.entity(&[EntityType::Place])?;
                fact("lives_in", value)
            }
            (
                status @ ("married" | "single" | "divorced" | "engaged" | "widowed"),
                "" | "." | "!" | "now" | "to" | "," | "anymore",
            ) => fact("marital_status", status.to_owned()),
            ("allergic", "to") => {
                self.at += 2;
                let value = self.value()?;
                fact(&format!("allergic {value}"), value.clone())
            }
            (diet @ ("vegan" | "vegetarian"), _) => fact("diet", diet.to_owned()),
            ("a" | "an", diet @ ("vegan" | "vegetarian" | "pescatarian")) => fact("diet", diet.to_owned()),
            _ => None,
        }
    }

    /// The key of an entity that stands here.
    fn entity(&mut self, allowed: &[EntityType]) -> Option<String> {
        self.skip(&["the"]);
        let mention = self.mention(allowed)?;
        let (key, end) = (mention.key.clone(), mention.range.end);
        self.at = self.token_after(end);
        Some(key)
    }

    fn value(&mut self) -> Option<String> {
        self.value_until(&[])
    }

    /// The words up to a mark, a clause or one of `stops`: an entity's key if it is one, else folded.
    fn value_until(&mut self, stops: &[&str]) -> Option<String> {
        self.skip(&["a", "an", "the", "my", "very", "some", "any"]);
        let entity =
            self.mention(&EntityType::ALL.iter().copied().filter(|kind| *kind != EntityType::Date).collect::<Vec<_>>());
        let known = entity.map(|mention| (mention.key.clone(), self.token_after(mention.range.end)));
        let start = self.at;
        while self.at < self.end {
            let Some(token) = self.text.get(self.at) else { break };
            let word = self.word(0);
            let is_mark = token.kind == Kind::Mark
                && !matches!(word, "-" | "@" | "+" | "/" | "#" | "'")
                && (token.is_spaced || !matches!(word, ".") || self.at + 1 >= self.end);
            let is_clause = matches!(
                word,
                "because"
                    | "and"
                    | "but"
                    | "now"
                    | "anymore"
                    | "any"
                    | "since"
                    | "so"
                    | "which"
                    | "who"
                    | "with"
                    | "for"
                    | "at"
                    | "or"
                    | "these"
                    | "while"
                    | "as"
                    | "too"
                    | "again"
            );
            if is_mark || is_clause || stops.contains(&word) {
                break;
            }
            self.at += 1;
            if self.at - start > 2 * MAX_VALUE_WORDS {
                return None;
            }
        }
        let words = match self.text.get(start).filter(|token| token.kind == Kind::Opaque) {
            Some(_) => self.text.source_of(start..self.at).to_owned(),
            None => self.text.key_of(start..self.at),
        };
        match known {
            Some((key, end)) if end == self.at => Some(key),
            _ if words.is_empty() || words.split(' ').count() > MAX_VALUE_WORDS => None,
            _ => (!VAGUE.contains(&words.split(' ').next().unwrap_or_default())).then_some(words),
        }
    }
}

/// What starts so is no value but a sentence, or points elsewhere.
const VAGUE: [&str; 34] = [
    "it",
    "that",
    "this",
    "these",
    "those",
    "them",
    "him",
    "her",
    "you",
    "me",
    "us",
    "one",
    "what",
    "how",
    "when",
    "where",
    "why",
    "who",
    "to",
    "because",
    "just",
    "more",
    "not",
    "no",
    "getting",
    "being",
    "all",
    "both",
    "each",
    "something",
    "anything",
    "everything",
    "nothing",
    "also",
];

/// Attributes of which one has one at a time.
const SINGLE_VALUED: [&str; 40] = [
    "name",
    "first name",
    "last name",
    "full name",
    "nickname",
    "birthday",
    "date of birth",
    "age",
    "address",
    "home address",
    "email",
    "email address",
    "phone",
    "phone number",
    "number",
    "job",
    "job title",
    "occupation",
    "profession",
    "employer",
    "hometown",
    "nationality",
    "native language",
    "mother tongue",
    "time zone",
    "timezone",
    "blood type",
    "shoe size",
    "height",
    "username",
    "boss",
    "manager",
    "major",
    "husband",
    "wife",
    "partner",
    "license plate",
    "middle name",
    "go-to editor",
    "editor",
];

/// What is done again and again, as the attribute it belongs to, and whether it is done.
fn habit(verb: &str, polarity: bool) -> Option<(&'static str, bool)> {
    let (attribute, denies) = match verb {
        "like" | "likes" | "love" | "loves" | "enjoy" | "enjoys" | "liking" => ("like", false),
        "hate" | "hates" | "dislike" | "dislikes" => ("like", true),
        "drink" | "drinks" | "drinking" => ("drink", false),
        "eat" | "eats" | "eating" => ("eat", false),
        "smoke" | "smokes" | "smoking" => ("smoke", false),
        "use" | "uses" | "using" => ("use", false),
        "speak" | "speaks" => ("speak", false),
        "play" | "plays" | "playing" => ("play", false),
        "own" | "owns" => ("own", false),
        _ => return None,
    };
    // Not hating is not liking.
    if denies && !polarity { None } else { Some((attribute, polarity != denies)) }
}
