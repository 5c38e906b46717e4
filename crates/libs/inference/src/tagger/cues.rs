//! Corrections by words that determine the kind or the end of a name more reliably than the network: legal forms
//! ("Ltd", "GmbH"), nouns of organizations ("University", "Logistics") and titles of persons.
//!
//! Only rules with very high precision belong here. `bench/src/bin/entities.rs` measures names with these rules.

use crate::embedder::NameKind;
use crate::tagger::words::Word;

/// Legal forms, which are part of a company's name and its last word.
const LEGAL_FORMS: [&str; 30] = [
    "ab",
    "ag",
    "as",
    "asa",
    "bv",
    "co",
    "corp",
    "corporation",
    "ev",
    "gbr",
    "gmbh",
    "inc",
    "incorporated",
    "kg",
    "kgaa",
    "limited",
    "llc",
    "llp",
    "ltd",
    "mbh",
    "nv",
    "ohg",
    "oy",
    "plc",
    "pty",
    "sa",
    "sarl",
    "se",
    "spa",
    "srl",
];
/// Legal forms that are not ordinary words: capitalized words in front of one are an organization.
const SURE_LEGAL_FORMS: [&str; 10] = ["corp", "gbr", "gmbh", "inc", "kgaa", "llc", "llp", "ltd", "mbh", "plc"];
/// Last words of names of organizations.
const ORGANIZATION_NOUNS: [&str; 76] = [
    "academy",
    "agency",
    "airlines",
    "airways",
    "architects",
    "associates",
    "association",
    "bank",
    "brothers",
    "bros",
    "club",
    "college",
    "commission",
    "committee",
    "company",
    "consulting",
    "council",
    "department",
    "elementary",
    "energy",
    "enterprises",
    "federation",
    "foods",
    "foundation",
    "gesellschaft",
    "group",
    "hochschule",
    "holdings",
    "hospital",
    "industries",
    "institut",
    "institute",
    "insurance",
    "klinik",
    "klinikum",
    "krankenhaus",
    "laboratories",
    "labs",
    "league",
    "library",
    "logistics",
    "ministerium",
    "ministry",
    "motors",
    "newspaper",
    "office",
    "organisation",
    "organization",
    "orchestra",
    "parliament",
    "partei",
    "partners",
    "party",
    "pharma",
    "pharmaceuticals",
    "police",
    "press",
    "records",
    "school",
    "senate",
    "services",
    "society",
    "solutions",
    "sons",
    "sparkasse",
    "stiftung",
    "studios",
    "systems",
    "technologies",
    "union",
    "universität",
    "university",
    "verband",
    "verein",
    "ventures",
    "versicherung",
];
/// Nouns that override the kind that the network predicts.
const SURE_NOUNS: [&str; 27] = [
    "academy",
    "airlines",
    "airways",
    "college",
    "elementary",
    "foundation",
    "gmbh",
    "hochschule",
    "hospital",
    "inc",
    "institut",
    "institute",
    "klinikum",
    "krankenhaus",
    "laboratories",
    "llc",
    "ltd",
    "ministerium",
    "ministry",
    "pharmaceuticals",
    "sparkasse",
    "stiftung",
    "technologies",
    "universität",
    "university",
    "verband",
    "versicherung",
];
/// Nouns of organizations that are followed by "of" and a place.
const NOUNS_WITH_PLACE: [&str; 11] = [
    "academy",
    "bank",
    "council",
    "embassy",
    "institute",
    "ministry",
    "museum",
    "parliament",
    "republic",
    "senate",
    "university",
];
const TITLES: [&str; 16] = [
    "dame",
    "dr",
    "frau",
    "herr",
    "lady",
    "lord",
    "madam",
    "miss",
    "mister",
    "mr",
    "mrs",
    "ms",
    "mx",
    "prof",
    "professor",
    "sir",
];
/// Maximum number of words in front of a legal form that belong to the name.
const MAX_WORDS_BEFORE_FORM: usize = 4;

/// Name over `words[first..end]`.
pub(super) type Tagged = (usize, usize, NameKind);

/// Corrects the borders and kinds of names. They do not overlap and stay in the order of the text.
pub(super) fn correct(text: &str, words: &[Word], names: Vec<Tagged>) -> Vec<Tagged> {
    let reader = Reader { text, words };
    let mut corrected: Vec<Tagged> = Vec::with_capacity(names.len());
    let mut rest = names.into_iter().peekable();
    while let Some((first, end, kind)) = rest.next() {
        let first = if kind == NameKind::Person { reader.skip_titles(first, end) } else { first };
        let (mut end, mut kind) = (end, kind);
        // Names inside the extended span are absorbed.
        while let Some((longer, of)) = reader.extend_name(first, end, kind, rest.peek()) {
            (end, kind) = (longer, of);
            while let Some(covered) = rest.next_if(|next| next.0 < end) {
                end = end.max(covered.1);
            }
        }
        let is_proven = end > first + 1 && reader.is_sure_noun(end - 1) || reader.is_compound_of_noun(end - 1);
        if is_proven && kind != NameKind::Organization {
            kind = NameKind::Organization;
        }
        corrected.push((first, end, kind));
    }
    reader.add_companies(&mut corrected);
    // In a text that capitalizes names, a lowercase word is not a name.
    if corrected.iter().any(|name| reader.has_capital(name)) {
        corrected.retain(|name| reader.has_capital(name));
    }
    corrected
}

struct Reader<'a> {
    text: &'a str,
    words: &'a [Word],
}

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| &self.text[word.range.clone()])
    }

    /// Returns the word in lower case, without periods.
    fn normalized(&self, at: usize) -> String {
        self.word(at).replace('.', "").to_lowercase()
    }

    fn is_one_of(&self, at: usize, known: &[&str]) -> bool {
        known.contains(&&*self.normalized(at))
    }

    fn is_capitalized(&self, at: usize) -> bool {
        self.word(at).starts_with(char::is_uppercase)
    }

    fn has_capital(&self, (first, end, _): &Tagged) -> bool {
        (*first..*end).any(|at| self.word(at).contains(|letter: char| letter.is_uppercase() || letter.is_numeric()))
    }

    fn is_noun(&self, at: usize) -> bool {
        self.is_one_of(at, &ORGANIZATION_NOUNS) || self.is_legal_form(at)
    }

    /// "as" and "se" are words; as legal forms they are written in capitals.
    fn is_legal_form(&self, at: usize) -> bool {
        let plain = self.normalized(at);
        SURE_LEGAL_FORMS.contains(&&*plain)
            || (LEGAL_FORMS.contains(&&*plain) && (self.is_capitalized(at) || plain.len() > 3))
    }

    fn is_sure_noun(&self, at: usize) -> bool {
        self.is_one_of(at, &SURE_NOUNS) && self.is_capitalized(at)
    }

    /// "Goethe-Institut", "Gesundheitsministerium".
    fn is_compound_of_noun(&self, at: usize) -> bool {
        let plain = self.normalized(at);
        ["institut", "institute", "ministerium", "universität", "sparkasse", "stiftung", "verband"]
            .iter()
            .any(|noun| plain.len() > noun.len() + 2 && plain.ends_with(noun))
    }

    fn skip_titles(&self, first: usize, end: usize) -> usize {
        (first..end).find(|at| !self.is_one_of(*at, &TITLES)).unwrap_or(first)
    }

    /// Returns the end and the kind of the longer name that contains this one.
    fn extend_name(
        &self,
        first: usize,
        end: usize,
        kind: NameKind,
        next: Option<&Tagged>,
    ) -> Option<(usize, NameKind)> {
        let follows = next.filter(|next| next.0 == end);
        let is_organization = kind == NameKind::Organization;
        let ends_with = |word: &str| self.normalized(end - 1) == word;
        // Baker & Lowe, Halvorsen & Partners
        if is_organization && end > first + 1 && matches!(self.word(end - 1), "&") {
            return (self.is_capitalized(end) || self.is_noun(end)).then_some((end + 1, kind));
        }
        if is_organization && self.word(end) == "&" && (self.is_capitalized(end + 1) || self.is_noun(end + 1)) {
            return Some((end + 2, kind));
        }
        // University of Leeds
        if is_organization && ends_with("of") && (self.is_capitalized(end) || follows.is_some()) {
            return Some((end + 1, kind));
        }
        let is_of_place = self.is_one_of(end - 1, &NOUNS_WITH_PLACE) && self.is_capitalized(end - 1);
        if is_of_place && self.normalized(end) == "of" && self.is_capitalized(end + 1) {
            return Some((end + 2, NameKind::Organization));
        }
        let is_free = follows.is_none();
        if is_organization && is_free && self.is_noun(end) && self.is_capitalized(end) == self.is_capitalized(first) {
            return Some((end + 1, kind));
        }
        // St Thomas' Hospital
        let noun = if matches!(self.word(end), "'" | "’" | "'s" | "’s") { end + 1 } else { end };
        if is_free && kind != NameKind::Organization && self.is_sure_noun(noun) {
            return Some((noun + 1, NameKind::Organization));
        }
        None
    }

    /// Adds capitalized words in front of a legal form as organizations where the network found no name.
    fn add_companies(&self, names: &mut Vec<Tagged>) {
        for form in 1..self.words.len() {
            if !self.is_one_of(form, &SURE_LEGAL_FORMS) || !self.is_capitalized(form) {
                continue;
            }
            let is_free = |at: usize| names.iter().all(|(first, end, _)| !(*first..*end).contains(&at));
            if !is_free(form) {
                continue;
            }
            let before = (1..=MAX_WORDS_BEFORE_FORM.min(form))
                .take_while(|back| self.is_capitalized(form - back) && is_free(form - back))
                .count();
            if before > 0 {
                names.push((form - before, form + 1, NameKind::Organization));
            }
        }
        names.sort_by_key(|name| name.0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use NameKind::{Organization, Person, Place};

    /// Splits at spaces; a name is written as `[words|kind]`.
    fn check(text: &str, tagged: &[(&str, NameKind)], expected: &[(&str, NameKind)]) {
        let words = words_of(text);
        let find = |name: &str| {
            let start = text.find(name).unwrap();
            let first = words.iter().position(|word| word.range.start >= start).unwrap();
            let end = words.iter().rposition(|word| word.range.end <= start + name.len()).unwrap() + 1;
            (first, end)
        };
        let names = tagged
            .iter()
            .map(|(name, kind)| {
                let (first, end) = find(name);
                (first, end, *kind)
            })
            .collect();
        let found: Vec<_> = correct(text, &words, names)
            .into_iter()
            .map(|(first, end, kind)| (&text[words[first].range.start..words[end - 1].range.end], kind))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    fn words_of(text: &str) -> Vec<Word> {
        let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
        text.split_whitespace()
            .map(|word| Word { range: start(word)..start(word) + word.len(), tokens: 0..0 })
            .collect()
    }

    #[test]
    fn titles_are_excluded_from_names() {
        check("ask Mr. Okafor", &[("Mr. Okafor", Person)], &[("Okafor", Person)]);
        check("ask Dr.", &[("Dr.", Person)], &[("Dr.", Person)]);
    }

    #[test]
    fn organizations_include_their_last_word() {
        check(
            "with Brightwater Logistics now",
            &[("Brightwater", Organization)],
            &[("Brightwater Logistics", Organization)],
        );
        check(
            "with brightwater logistics now",
            &[("brightwater", Organization)],
            &[("brightwater logistics", Organization)],
        );
        check(
            "at Nordvik Timber AS today",
            &[("Nordvik Timber", Organization)],
            &[("Nordvik Timber AS", Organization)],
        );
        check("at Siemens as usual", &[("Siemens", Organization)], &[("Siemens", Organization)]);
        check("at Baker & Lowe today", &[("Baker", Organization), ("Lowe", Person)], &[("Baker & Lowe", Organization)]);
        check(
            "the University of Leeds",
            &[("University of", Organization), ("Leeds", Place)],
            &[("University of Leeds", Organization)],
        );
        check(
            "the Bank of Ireland",
            &[("Bank", Organization), ("Ireland", Place)],
            &[("Bank of Ireland", Organization)],
        );
    }

    #[test]
    fn nouns_determine_organizations() {
        check("at Lincoln Elementary again", &[("Lincoln Elementary", Place)], &[("Lincoln Elementary", Organization)]);
        check("at Thomas Hospital again", &[("Thomas", Person)], &[("Thomas Hospital", Organization)]);
        check("das Goethe-Institut", &[("Goethe-Institut", Place)], &[("Goethe-Institut", Organization)]);
        check("run by Little Acorns Ltd today", &[], &[("Little Acorns Ltd", Organization)]);
    }

    #[test]
    fn lowercase_names_are_dropped_in_capitalized_texts() {
        check("the castle near Heidelberg", &[("castle", Place), ("Heidelberg", Place)], &[("Heidelberg", Place)]);
        check("the castle near heidelberg", &[("heidelberg", Place)], &[("heidelberg", Place)]);
    }

    proptest! {
        #[test]
        fn names_stay_ordered_and_disjoint(
            words in prop::collection::vec("Anna|Leeds|of|&|University|Ltd|Mr\\.|castle|AS|'s|Hospital", 1..12),
            starts in prop::collection::vec((0usize..12, 1usize..3, 0usize..3), 0..5),
        ) {
            let text = words.join(" ");
            let words = words_of(&text);
            let mut names: Vec<Tagged> = Vec::new();
            let mut at = 0;
            for (gap, length, kind) in starts {
                let first = at + gap % 3;
                if first + length > words.len() { break }
                names.push((first, first + length, [Person, Organization, Place][kind]));
                at = first + length;
            }
            let found = correct(&text, &words, names);
            prop_assert!(found.iter().all(|(first, end, _)| first < end && *end <= words.len()));
            prop_assert!(found.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
    }
}
