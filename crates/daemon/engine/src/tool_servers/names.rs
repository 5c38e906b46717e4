//! Names of server tools for models.
//!
//! A tool is named `<prefix>_<tool>`. A prefix has no underscore, so a tool of one server cannot imitate the name of
//! another server's tool. Names that vendors would reject are rewritten and receive a part of the hash of the original
//! name, which keeps them distinct. The result depends on the original name alone, so it does not change with the other
//! tools of the server.

use std::collections::HashSet;

use agentd_base::sha256;

const MAX_PREFIX: usize = 24;
/// Maximum length that all vendors accept.
const MAX_NAME: usize = 64;
/// Length of the hash part, in hexadecimal digits.
const SHORT_HASH: usize = 8;
const LONG_HASH: usize = 24;

/// Derives the prefix of a server's tool names from its name: `[a-z0-9-]{1,24}`.
pub(super) fn prefix(name: &str) -> String {
    let mut prefix = String::new();
    for character in name.chars() {
        match character.to_ascii_lowercase() {
            allowed @ ('a'..='z' | '0'..='9') => prefix.push(allowed),
            _ if prefix.is_empty() || prefix.ends_with('-') => {}
            _ => prefix.push('-'),
        }
        if prefix.len() == MAX_PREFIX {
            break;
        }
    }
    let prefix = prefix.trim_end_matches('-').to_owned();
    if prefix.is_empty() { format!("server-{}", hash(name, SHORT_HASH)) } else { prefix }
}

/// Returns names for the tools of one server, in their order; `is_taken` reports names of other tools.
pub(super) fn offered<'a>(
    prefix: &str,
    tools: impl IntoIterator<Item = &'a str> + Clone,
    is_taken: impl Fn(&str) -> bool,
) -> Vec<Option<String>> {
    let original = |tool: &str| Some(format!("{prefix}_{tool}")).filter(|name| is_valid(name));
    // Valid names are assigned first, so that a rewritten name cannot take one.
    let mut used: HashSet<String> = HashSet::new();
    let mut names: Vec<Option<String>> = tools
        .clone()
        .into_iter()
        .map(|tool| original(tool).filter(|name| !is_taken(name) && used.insert(name.clone())))
        .collect();
    for (name, tool) in names.iter_mut().zip(tools) {
        if name.is_none() {
            let mut candidates = [SHORT_HASH, LONG_HASH].into_iter().map(|digits| rewrite(prefix, tool, digits));
            *name = candidates.find(|name| !is_taken(name) && used.insert(name.clone()));
        }
    }
    names
}

fn is_valid(name: &str) -> bool {
    name.len() <= MAX_NAME && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn rewrite(prefix: &str, tool: &str, digits: usize) -> String {
    let readable_length = MAX_NAME - prefix.len() - digits - 2;
    let valid_char = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let readable: String = tool.chars().take(readable_length).map(valid_char).collect();
    format!("{prefix}_{readable}_{}", hash(tool, digits))
}

fn hash(text: &str, digits: usize) -> String {
    let mut hash = hex::encode(sha256(text.as_bytes()));
    hash.truncate(digits);
    hash
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prefix_is_derived_from_the_name() {
        for (name, expected) in [
            ("github", "github"),
            ("Chrome DevTools", "chrome-devtools"),
            ("  a__b  ", "a-b"),
            ("Zeit (örtlich)", "zeit-rtlich"),
            ("a name that is longer than a prefix", "a-name-that-is-longer-th"),
        ] {
            assert_eq!(prefix(name), expected);
        }
        assert!(prefix("日本").starts_with("server-"));
        assert_ne!(prefix("日本"), prefix("中国"));
    }

    #[test]
    fn valid_names_are_kept_and_others_rewritten() {
        let long = "x".repeat(100);
        let names = offered("s", ["read_file", "two.words", &long, "taken"], |name| name == "s_taken");
        assert_eq!(names[0].as_deref(), Some("s_read_file"));
        assert!(names[1].as_deref().is_some_and(|name| name.starts_with("s_two_words_")));
        assert_eq!(names[2].as_deref().map(str::len), Some(MAX_NAME));
        assert!(names[3].as_deref().is_some_and(|name| name.starts_with("s_taken_")));
        // A tool that imitates a rewritten name does not obtain it.
        let imitation = names[1].clone().unwrap_or_default();
        let both = offered("s", ["two.words", imitation.trim_start_matches("s_")], |_| false);
        assert_eq!(both[1], names[1]);
        assert_ne!(both[0], names[1]);
    }

    proptest! {
        #[test]
        fn names_are_valid_unique_and_stable(
            server in "\\PC{0,40}",
            tools in prop::collection::hash_set("[!-~]{1,128}", 0..20),
        ) {
            let prefix = prefix(&server);
            prop_assert!((1..=MAX_PREFIX).contains(&prefix.len()) && !prefix.contains('_') && is_valid(&prefix));
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            let names = offered(&prefix, tools.iter().copied(), |_| false);
            let known: HashSet<&String> = names.iter().flatten().collect();
            prop_assert_eq!(known.len(), tools.len());
            for (tool, name) in tools.iter().zip(&names) {
                let name = name.as_deref().unwrap_or_default();
                let start = prefix.clone() + "_";
                prop_assert!(is_valid(name) && name.starts_with(&start));
                let alone = offered(&prefix, [*tool], |_| false);
                prop_assert_eq!(alone[0].as_deref(), Some(name));
            }
        }
    }
}
