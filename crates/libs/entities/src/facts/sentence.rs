//! English sentence patterns that state a fact: subject, attribute and value.

use super::FactKey;
use super::reader::Reader;
use super::vocabulary::{SINGLE_VALUED, UNCERTAIN, habit};
use crate::cues;
use crate::text::Kind;
use crate::types::EntityType;

/// Maximum number of tokens of the object of a habit; longer ones are not simple facts.
const MAX_HABIT_TOKENS: usize = 4;

impl Reader<'_, '_, '_> {
    pub(super) fn fact(&mut self, speaker: &str) -> Option<FactKey> {
        let is_question = self.text.folded(self.end - 1) == "?";
        let is_uncertain = (self.at..self.end).take(64).any(|at| UNCERTAIN.contains(&self.text.folded(at)));
        if is_question || is_uncertain {
            return None;
        }
        self.skip(&[
            "well", "so", "actually", "oh", "hey", "hi", "yes", "yeah", "no", "and", "also", "fyi", "now", "btw", ",",
            "!", "-", "*", "hallo", "ja", "und",
        ]);
        if matches!(self.word(0), "ich" | "mein" | "meine") {
            return self.german_fact(speaker);
        }
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
        let (key, end) = self.person()?;
        self.at = end;
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
        matches!(self.word(1), "favourite" | "favorite" | "preferred")
            || SINGLE_VALUED.contains(&self.word(1))
            || SINGLE_VALUED.contains(&&*format!("{} {}", self.word(1), self.word(2)))
    }

    /// Reads the continuation of "my": a relative or a possession.
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
        // In "my sister Anna works …", the subject is Anna.
        if let Some((key, end)) = self.person() {
            self.at = end;
            return self.predicate(key);
        }
        self.predicate(format!("{speaker} {kin}"))
    }

    /// Reads `favourite colour is blue`, `phone number is …`.
    fn attribute(&mut self, subject: &str) -> Option<FactKey> {
        let is_favorite = self.take(&["favourite", "favorite", "preferred"]);
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

    /// Reads the predicate of a subject.
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
                let value = self.entity(EntityType::Place)?;
                fact("lives_in", value)
            }
            ("work" | "works" | "working", "at" | "for") => {
                self.at += 1;
                let value = self.entity(EntityType::Organization)?;
                fact("works_at", value)
            }
            ("joined", _) => {
                let value = self.entity(EntityType::Organization)?;
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
                // The object of a preference is a noun, not a clause.
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

    /// Reads the continuation of "am" or "is".
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
                let value = self.entity(EntityType::Place)?;
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
}
