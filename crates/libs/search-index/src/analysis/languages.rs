//! Stop words of other languages. Documents do not state their language; the language of a query is detected only if
//! its words are unambiguous. Only queries drop stop words.

use std::collections::BTreeSet;

use super::{fold, scripts, stop_words};

/// Minimum number of different words of a language, none of them English, to detect that language.
const MIN_WORDS: usize = 2;
/// Number of words of a query that are examined.
const MAX_EXAMINED_WORDS: usize = 64;

/// Stop words: sorted, folded, unstemmed.
pub(super) type StopWords = &'static [&'static str];

/// Returns the stop words of the query's language; empty for English and if the language is unclear.
pub(super) fn of_query(text: &str) -> StopWords {
    let mut words = BTreeSet::new();
    for word in text.split(|c| !scripts::is_word(c)).filter(|word| !word.is_empty()).take(MAX_EXAMINED_WORDS) {
        let mut folded = String::new();
        fold::fold_into(word, &mut folded);
        words.insert(folded);
    }
    let mut best: (usize, StopWords) = (MIN_WORDS - 1, &[]);
    for language in LANGUAGES {
        let is_known = |word: &str| language.binary_search(&word).is_ok();
        if words.iter().any(|word| stop_words::is_stop_word(word) && !is_known(word)) {
            continue;
        }
        let found = words.iter().filter(|word| is_known(word) && !stop_words::is_stop_word(word)).count();
        if found > best.0 {
            best = (found, language);
        }
    }
    best.1
}

const LANGUAGES: [StopWords; 6] = [GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE, DUTCH];

const GERMAN: &[&str] = &[
    "aber", "als", "also", "am", "an", "auch", "auf", "aus", "bei", "beim", "bin", "bis", "bist", "da", "dann", "das",
    "dass", "dein", "deine", "dem", "den", "denn", "der", "des", "die", "dies", "diese", "diesem", "diesen", "dieser",
    "dieses", "doch", "du", "ein", "eine", "einem", "einen", "einer", "eines", "er", "es", "euch", "euer", "fur",
    "gegen", "gibt", "habe", "haben", "hat", "hatte", "hatten", "hier", "ich", "ihm", "ihn", "ihnen", "ihr", "ihre",
    "ihrem", "ihren", "im", "in", "ist", "ja", "jede", "jeder", "jetzt", "kann", "kannst", "konnen", "man", "mein",
    "meine", "meinem", "meinen", "meiner", "mich", "mir", "mit", "nach", "nicht", "noch", "nur", "ob", "oder", "ohne",
    "schon", "sehr", "sein", "seine", "seit", "sich", "sie", "sind", "so", "uber", "um", "und", "uns", "unser",
    "unsere", "unter", "vom", "von", "vor", "wann", "war", "waren", "warum", "was", "weil", "welche", "welcher",
    "welches", "wem", "wen", "wenn", "wer", "werden", "wie", "wieder", "wieviel", "will", "wir", "wird", "wo", "woher",
    "wohin", "worden", "wurde", "wurden", "zu", "zum", "zur", "zwischen",
];
const FRENCH: &[&str] = &[
    "a", "ai", "as", "au", "aux", "avec", "avez", "avons", "c", "ce", "ces", "cet", "cette", "comme", "comment", "d",
    "dans", "de", "des", "donc", "du", "elle", "elles", "en", "es", "est", "et", "ete", "etre", "eu", "fait", "il",
    "ils", "j", "je", "l", "la", "le", "les", "leur", "leurs", "lui", "m", "ma", "mais", "me", "mes", "moi", "mon",
    "n", "ne", "nos", "notre", "nous", "on", "ont", "ou", "par", "pas", "pour", "pourquoi", "qu", "quand", "que",
    "quel", "quelle", "quelles", "quels", "qui", "quoi", "s", "sa", "sans", "se", "ses", "si", "son", "sont", "sur",
    "t", "ta", "te", "tes", "toi", "ton", "tu", "un", "une", "vos", "votre", "vous", "y",
];
const SPANISH: &[&str] = &[
    "a", "al", "como", "con", "cual", "cuales", "cuando", "cuanto", "cuantos", "de", "del", "desde", "donde",
    "durante", "e", "el", "ella", "ellas", "ellos", "en", "entre", "era", "eres", "es", "esa", "ese", "eso", "esta",
    "estan", "este", "esto", "fue", "ha", "han", "has", "hasta", "hay", "he", "la", "las", "le", "les", "lo", "los",
    "mas", "me", "mi", "mis", "mucho", "muy", "nada", "ni", "no", "nos", "nosotros", "nuestra", "nuestro", "o", "para",
    "pero", "por", "porque", "que", "quien", "se", "ser", "si", "sin", "sobre", "son", "soy", "su", "sus", "tambien",
    "te", "tiene", "tienen", "tu", "tus", "un", "una", "uno", "y", "ya", "yo",
];
const ITALIAN: &[&str] = &[
    "a", "ad", "agli", "ai", "al", "alla", "alle", "allo", "anche", "avere", "c", "che", "chi", "ci", "come", "con",
    "cosa", "cui", "d", "da", "dal", "dalla", "dei", "del", "della", "delle", "dello", "di", "dove", "e", "ed", "era",
    "gli", "ha", "hai", "hanno", "ho", "i", "il", "in", "io", "l", "la", "le", "lei", "lo", "loro", "lui", "ma", "mi",
    "mia", "mie", "mio", "ne", "nei", "nel", "nella", "noi", "non", "nostra", "nostro", "o", "per", "perche", "piu",
    "quale", "quali", "quando", "quanto", "quello", "questa", "queste", "questi", "questo", "se", "sei", "si", "sono",
    "su", "sua", "sul", "sulla", "suo", "ti", "tra", "tu", "tua", "tuo", "un", "una", "uno", "vi", "voi",
];
const PORTUGUESE: &[&str] = &[
    "a", "ao", "aos", "as", "ate", "com", "como", "da", "das", "de", "dela", "dele", "do", "dos", "e", "ela", "elas",
    "ele", "eles", "em", "entre", "era", "essa", "esse", "esta", "este", "eu", "foi", "for", "ha", "isso", "isto",
    "ja", "lhe", "mais", "mas", "me", "mesmo", "meu", "minha", "muito", "na", "nao", "nas", "nem", "no", "nos", "o",
    "onde", "os", "ou", "para", "pela", "pelo", "por", "porque", "qual", "quando", "que", "quem", "sao", "se", "sem",
    "ser", "seu", "sua", "tambem", "te", "tem", "um", "uma", "voce", "voces",
];
const DUTCH: &[&str] = &[
    "aan", "al", "als", "bij", "dan", "dat", "de", "der", "deze", "die", "dit", "door", "dus", "een", "en", "er",
    "had", "heb", "hebben", "heeft", "hem", "het", "hier", "hij", "hoe", "hun", "ik", "in", "is", "ja", "je", "jij",
    "kan", "maar", "me", "mee", "met", "mij", "mijn", "naar", "niet", "nog", "nu", "of", "om", "omdat", "onder", "ons",
    "onze", "ook", "op", "over", "te", "tot", "uit", "van", "voor", "waar", "waarom", "wanneer", "wat", "we", "welke",
    "wie", "wij", "wordt", "zal", "ze", "zich", "zij", "zijn", "zo", "zonder",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted() {
        assert!(LANGUAGES.iter().all(|language| language.is_sorted()));
    }

    #[test]
    fn language_is_detected_by_its_own_words() {
        assert_eq!(of_query("Wann kommt die Müllabfuhr?"), GERMAN);
        assert_eq!(of_query("Où est la clé de la cave ?"), FRENCH);
        assert_eq!(of_query("¿Dónde está la llave del sótano?"), SPANISH);
        assert_eq!(of_query("Dov'è la chiave della cantina?"), ITALIAN);
        assert_eq!(of_query("Wanneer komt het vuilnis?"), DUTCH);
        for english in ["Did she die in the war?", "Caroline", "La La Land", "What was the hat of man?", "", "los"] {
            assert_eq!(of_query(english), [""; 0], "{english}");
        }
    }
}
