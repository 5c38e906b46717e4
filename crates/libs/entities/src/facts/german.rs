//! Plain first-person facts in German: "ich heiße Ada", "ich wohne jetzt in Köln", "meine Lieblingsfarbe ist blau". All
//! German nouns are capitalized, so places and companies are those that the tagger found. Negated statements are not
//! facts.

use super::FactKey;
use super::reader::Reader;
use super::vocabulary::{
    EXCLUDED_NAMES, GERMAN_ADVERBS, GERMAN_COLORS, GERMAN_MONTHS, GERMAN_UNCERTAIN, VALUE_FOLLOWERS,
};
use crate::dates;
use crate::text::{Kind, Token};
use crate::types::EntityType;

const MAX_NAME_TOKENS: usize = 5;
const MAX_FAVORITE_WORDS: usize = 5;

#[derive(Clone, Copy)]
enum Value {
    Name,
    Place,
    Organization,
    Age,
    Birthday,
}

/// Beginnings of statements, in folded words, with the attribute and the type of the value.
const STATEMENTS: [(&[&str], &str, Value); 10] = [
    (&["ich", "heisse"], "name", Value::Name),
    (&["mein", "name", "ist"], "name", Value::Name),
    (&["mein", "vorname", "ist"], "first name", Value::Name),
    (&["mein", "nachname", "ist"], "last name", Value::Name),
    (&["mein", "spitzname", "ist"], "nickname", Value::Name),
    (&["ich", "wohne", "in"], "lives_in", Value::Place),
    (&["ich", "lebe", "in"], "lives_in", Value::Place),
    (&["ich", "arbeite", "bei"], "works_at", Value::Organization),
    (&["ich", "bin"], "age", Value::Age),
    (&["mein", "geburtstag", "ist"], "birthday", Value::Birthday),
];

impl Reader<'_, '_, '_> {
    pub(super) fn german_fact(&mut self, speaker: &str) -> Option<FactKey> {
        if self.is_doubtful(self.text.get(self.at)?.sentence) {
            return None;
        }
        let (attribute, value) = self.german_favorite().or_else(|| self.german_statement())?;
        Some(FactKey { subject: speaker.to_owned(), attribute, value, polarity: true })
    }

    fn is_doubtful(&self, sentence: usize) -> bool {
        let Some(range) = self.text.sentences.get(sentence) else { return true };
        self.text.folded(range.end - 1) == "?"
            || range.clone().take(64).any(|at| GERMAN_UNCERTAIN.contains(&self.text.folded(at)))
    }

    fn german_statement(&mut self) -> Option<(String, String)> {
        let start = self.at;
        for (words, attribute, value) in STATEMENTS {
            self.at = start;
            if !self.takes_all(words) {
                continue;
            }
            let value = match value {
                Value::Name => self.german_name(),
                Value::Place => self.tagged(EntityType::Place),
                Value::Organization => {
                    self.skip(&["der"]);
                    self.tagged(EntityType::Organization)
                }
                Value::Age => self.german_age(),
                Value::Birthday => self.german_birthday(),
            };
            return Some((attribute.to_owned(), value?));
        }
        None
    }

    /// Reads the words in order, with adverbs between and after them.
    fn takes_all(&mut self, words: &[&str]) -> bool {
        words.iter().all(|word| {
            let fits = self.take(&[*word]);
            self.skip(&GERMAN_ADVERBS);
            fits
        })
    }

    fn german_name(&mut self) -> Option<String> {
        let start = self.at;
        let person =
            self.mention(&[EntityType::Person]).map(|person| (person.key.clone(), self.token_after(person.range.end)));
        while let Some(token) = self.text.get(self.at).filter(|_| self.at < self.end) {
            let is_joint = self.at > start && self.word(0) == "-" && !token.is_spaced;
            if !(token.kind == Kind::Word && token.is_capital() || is_joint) || self.at - start >= MAX_NAME_TOKENS {
                break;
            }
            self.at += 1;
        }
        if self.at == start || !self.ends_here() || EXCLUDED_NAMES.contains(&self.text.folded(start)) {
            return None;
        }
        match person {
            Some((key, end)) if end == self.at => Some(key),
            _ => Some(self.text.key_of(start..self.at)),
        }
    }

    /// "Ich lebe in Angst" does not name a place.
    fn tagged(&mut self, allowed: EntityType) -> Option<String> {
        let mention = self.mention(&[allowed])?;
        let (key, end) = (mention.key.clone(), mention.range.end);
        self.at = self.token_after(end);
        self.ends_here().then_some(key)
    }

    fn german_age(&mut self) -> Option<String> {
        let age = self.word(0).to_owned();
        let is_number = (1..=3).contains(&age.len()) && age.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || !matches!(self.word(1), "jahre" | "jahr") || self.word(2) != "alt" {
            return None;
        }
        self.at += 3;
        self.ends_here().then_some(age)
    }

    /// Reads the day without its year, which is not always given. Elsewhere, the full stop of "3. Mai" ends a sentence.
    fn german_birthday(&mut self) -> Option<String> {
        self.skip(&["am", "der"]);
        if self.at >= self.end {
            return None;
        }
        let month_at = self.at + 1 + usize::from(self.text.folded(self.at + 1) == ".");
        let month = GERMAN_MONTHS.iter().position(|month| *month == self.text.folded(month_at));
        if let Some(month) = month {
            let day = self.word(0).parse::<u32>().ok().filter(|day| (1..=31).contains(day))?;
            let is_certain = !self.is_doubtful(self.text.get(month_at)?.sentence);
            return is_certain.then(|| format!("--{:02}-{day:02}", month + 1));
        }
        let key = dates::date_at(self.text, self.at)?.key;
        let is_day = key.len() == "2026-01-31".len() && key.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        is_day.then(|| format!("--{}", &key["2026-".len()..]))
    }

    /// Reads `mein Lieblingsessen ist Pizza`; the key is the category of the favourite.
    fn german_favorite(&mut self) -> Option<(String, String)> {
        let start = self.at;
        let favorite = self.favorite_ahead();
        if favorite.is_none() {
            self.at = start;
        }
        favorite
    }

    fn favorite_ahead(&mut self) -> Option<(String, String)> {
        if !self.take(&["mein", "meine"]) {
            return None;
        }
        let mut noun = self.word(0).strip_prefix("lieblings")?.to_owned();
        self.at += 1;
        if noun.is_empty() {
            self.skip(&["-"]);
            self.word(0).clone_into(&mut noun);
            self.at += 1;
        }
        if noun.is_empty() || !self.take(&["ist", "heisst"]) {
            return None;
        }
        self.skip(&GERMAN_ADVERBS);
        self.skip(&["der", "die", "das", "ein", "eine"]);
        let start = self.at;
        let first = self.text.get(start).filter(|_| start < self.end)?;
        let is_color = noun == "farbe" && GERMAN_COLORS.contains(&self.word(0));
        if first.kind != Kind::Word || !first.is_capital() && !is_color {
            return None;
        }
        while self.text.get(self.at).is_some_and(|token| matches!(token.kind, Kind::Word | Kind::Number))
            && self.at < self.end
            && !matches!(self.word(0), "und" | "oder" | "weil" | "aber")
        {
            self.at += 1;
        }
        // With two values, neither is the favourite.
        let is_one = !matches!(self.word(0), "und" | "oder" | "-" | "/");
        let value = self.text.key_of(start..self.at);
        (is_one && self.at - start <= MAX_FAVORITE_WORDS).then(|| (format!("favorite {noun}"), value))
    }

    /// Whether a value is complete: the sentence ends, pauses or continues with something else.
    fn ends_here(&self) -> bool {
        let Some(token) = self.text.get(self.at).filter(|_| self.at < self.end) else { return true };
        match self.word(0) {
            // "In Berlin und Hamburg" states neither of the two.
            "und" => {
                !self.text.get(self.at + 1).is_some_and(Token::is_capital)
                    && !matches!(self.word(1), "in" | "bei" | "auch")
            }
            mark if token.kind == Kind::Mark => matches!(mark, "." | "!" | "," | ";" | ")" | "…"),
            word => VALUE_FOLLOWERS.contains(&word),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{EntityType, FactKey, TaggedName};

    fn names(text: &str) -> Vec<TaggedName> {
        let known = [
            ("Berlin", EntityType::Place),
            ("München", EntityType::Place),
            ("Munich", EntityType::Place),
            ("Hamburg", EntityType::Place),
            ("Siemens AG", EntityType::Organization),
            ("Siemens", EntityType::Organization),
        ];
        let mut found: Vec<TaggedName> = Vec::new();
        for (name, entity_type) in known {
            for (at, _) in text.match_indices(name) {
                if found.iter().all(|other| other.range.start != at) {
                    found.push(TaggedName { range: at..at + name.len(), entity_type: Some(entity_type) });
                }
            }
        }
        found
    }

    fn fact_key(text: &str) -> Option<FactKey> {
        crate::fact_key(text, &names(text))
    }

    fn fact_keys(text: &str, speaker: Option<&str>) -> Vec<FactKey> {
        crate::fact_keys(text, &names(text), speaker)
    }

    fn fact(text: &str) -> Option<(String, String)> {
        fact_key(text).map(|fact| {
            assert!(fact.subject == "self" && fact.polarity, "{text}: {fact:?}");
            (fact.attribute, fact.value)
        })
    }

    #[test]
    fn plain_statements() {
        for (text, attribute, value) in [
            ("Ich heiße Ada.", "name", "ada"),
            ("Hallo, ich heiße übrigens Anna!", "name", "anna"),
            ("Mein Name ist Ada.", "name", "ada"),
            ("Mein Spitzname ist Zorro", "nickname", "zorro"),
            ("Ich wohne in Berlin.", "lives_in", "berlin"),
            ("Ich lebe jetzt in München.", "lives_in", "munich"),
            ("Ich arbeite bei Siemens als Technikerin.", "works_at", "siemens"),
            ("Ich arbeite bei der Siemens AG.", "works_at", "siemens"),
            ("Ich bin 30 Jahre alt.", "age", "30"),
            ("Mein Geburtstag ist am 3. Mai.", "birthday", "--05-03"),
            ("Mein Geburtstag ist der 3. Mai 1990.", "birthday", "--05-03"),
            ("Mein Geburtstag ist am 03.05.1990.", "birthday", "--05-03"),
            ("Meine Lieblingsfarbe ist blau.", "favorite farbe", "blau"),
            ("Meine Lieblingsfarbe ist jetzt Grün", "favorite farbe", "grun"),
            ("Mein Lieblings-Editor ist Vim.", "favorite editor", "vim"),
            ("Mein Lieblingsessen ist die Pizza, weil sie schmeckt.", "favorite essen", "pizza"),
        ] {
            assert_eq!(fact(text), Some((attribute.to_owned(), value.to_owned())), "{text}");
        }
    }

    #[test]
    fn several_in_one_sentence_and_against_english() {
        let facts = fact_keys("Ich heiße Ada und ich wohne in Berlin.", Some("Ada"));
        assert_eq!(facts.iter().map(|fact| &*fact.attribute).collect::<Vec<_>>(), ["name", "lives_in"]);
        assert_eq!(fact("Ich heiße Ada und wohne in Berlin."), Some(("name".to_owned(), "ada".to_owned())));
        for (one, other, expected) in [
            ("Ich wohne in Berlin.", "Ich wohne jetzt in München.", true),
            ("I live in Berlin.", "Ich lebe in München.", true),
            ("I live in Munich.", "Ich lebe in München.", false),
            ("Meine Lieblingsfarbe ist blau.", "Meine Lieblingsfarbe ist rot.", true),
            ("Meine Lieblingsfarbe ist blau.", "My favourite colour is blue.", false),
            ("Mein Lieblingsessen ist Pizza.", "Mein Lieblingsfilm ist Alien.", false),
            ("Mein Geburtstag ist am 3. Mai.", "Mein Geburtstag ist am 4. Mai.", true),
            ("My preferred drink is tea.", "My preferred drink is coffee.", true),
        ] {
            let (one, other) = (fact_key(one).expect(one), fact_key(other).expect(other));
            assert_eq!(one.contradicts(&other), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn what_is_no_fact() {
        for text in [
            "Wohne ich in Berlin?",
            "Ich wohne in Berlin?",
            "Ich wohne nicht in Berlin.",
            "Ich wohne nicht mehr in Berlin.",
            "Angenommen ich heiße Bob.",
            "Angenommen, ich wohne in Berlin.",
            "Wenn ich in Berlin wohne, laufe ich.",
            "Ich wohne in Berlin, wenn alles klappt.",
            "Ich würde in Berlin wohnen.",
            "Ich wohne vielleicht in Berlin.",
            "Ich wohne bald in Berlin.",
            "Anna sagt, ich heiße Tom.",
            "Ich heiße Tom, sagt Anna.",
            "Ich heiße Tom und ich wohne in Berlin, sagte er.",
            "\u{201e}Ich heiße Tom\u{201c}, rief er.",
            "Ich heiße Sie herzlich willkommen.",
            "Ich heiße das nicht gut.",
            "Mein Name ist Programm.",
            "Mein Name ist geheim.",
            "Ich lebe in Angst.",
            "Ich lebe in Frieden mit allen.",
            "Ich wohne in der Nähe von Berlin.",
            "Ich wohne in Berlin und Hamburg.",
            "Ich habe früher in Berlin gewohnt.",
            "Ich arbeite bei Regen.",
            "Ich arbeite nie bei Siemens.",
            "Ich bin fast 30 Jahre alt.",
            "Ich bin 30 Minuten zu spät.",
            "Mein Geburtstag ist am 3. Mai, glaube ich.",
            "Mein Geburtstag ist bald.",
            "Meine Lieblingsfarbe ist schön.",
            "Meine Lieblingsfarbe ist nicht blau.",
            "Mein Lieblingskollege ist krank.",
            "Mein Lieblingstier ist Hund oder Katze.",
            "Ist meine Lieblingsfarbe blau?",
            "Mein Lieblings",
            "I prefer tea.",
            "ich",
            "mein",
        ] {
            assert_eq!(fact_key(text), None, "{text}");
        }
    }
}
