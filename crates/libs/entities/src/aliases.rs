//! Canonical keys for alternative names: places in German and English, companies with and without their legal form.

/// Folded foreign or short names of places with their English names, sorted by the former.
const PLACES: [(&str, &str); 27] = [
    ("belgien", "belgium"),
    ("brussel", "brussels"),
    ("danemark", "denmark"),
    ("deutschland", "germany"),
    ("frankreich", "france"),
    ("genf", "geneva"),
    ("italien", "italy"),
    ("koln", "cologne"),
    ("kopenhagen", "copenhagen"),
    ("lissabon", "lisbon"),
    ("mailand", "milan"),
    ("moskau", "moscow"),
    ("muenchen", "munich"),
    ("munchen", "munich"),
    ("niederlande", "netherlands"),
    ("nurnberg", "nuremberg"),
    ("osterreich", "austria"),
    ("polen", "poland"),
    ("prag", "prague"),
    ("rom", "rome"),
    ("schweiz", "switzerland"),
    ("spanien", "spain"),
    ("uk", "united kingdom"),
    ("usa", "united states"),
    ("venedig", "venice"),
    ("warschau", "warsaw"),
    ("wien", "vienna"),
];
/// Legal forms, folded, without periods.
const LEGAL_FORMS: [&str; 16] = [
    "inc",
    "corp",
    "corporation",
    "ltd",
    "limited",
    "llc",
    "plc",
    "gmbh",
    "ag",
    "se",
    "kg",
    "co",
    "company",
    "sa",
    "nv",
    "as",
];

pub(crate) fn place_key(key: String) -> String {
    match PLACES.binary_search_by_key(&key.as_str(), |(name, _)| name) {
        Ok(at) => PLACES[at].1.to_owned(),
        Err(_) => key,
    }
}

/// Returns `microsoft` for `microsoft, inc`.
pub(crate) fn without_legal_form(key: &str) -> &str {
    let mut rest = key;
    while let Some((name, form)) = rest.trim_end_matches(['.', ',']).rsplit_once(' ') {
        if !LEGAL_FORMS.contains(&form.trim_matches(['.', ','])) {
            break;
        }
        rest = name.trim_end_matches([',', '.', ' ']);
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternative_names_have_the_same_key() {
        assert!(PLACES.is_sorted());
        assert_eq!(place_key("munchen".to_owned()), "munich");
        assert_eq!(place_key("bonn".to_owned()), "bonn");
        for (key, expected) in
            [("microsoft, inc", "microsoft"), ("siemens ag", "siemens"), ("ag", "ag"), ("baker & lowe", "baker & lowe")]
        {
            assert_eq!(without_legal_form(key), expected, "{key}");
        }
    }
}
