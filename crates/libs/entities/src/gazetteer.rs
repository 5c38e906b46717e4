//! Known software and topics, loaded once from the compiled-in files under `data/`, and their lookup in a trie over
//! folded tokens.
//!
//! Format of a line: `name | alias, alias | rule`; `@type` begins a section. A hyphen between words is optional; the
//! plural of a concept matches the concept. An alias that starts with `=` must match exactly. The rules are defined
//! where they are applied (`known`).

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::fold::fold;
use crate::text::{Kind, Text, hash};
use crate::types::EntityType;

const TECHNOLOGY: &str = include_str!("../data/technology.txt");
const CONCEPTS: &str = include_str!("../data/concepts.txt");

/// Evidence required for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Certain,
    /// A significant capital, or context.
    Cased,
    /// A capital and context.
    Context,
    /// Natural language, whose name is also an adjective.
    Spoken,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) key: Box<str>,
    pub(crate) entity_type: EntityType,
    pub(crate) rule: Rule,
    /// Words in the sentence that support the entry, as hashes of their folded form.
    pub(crate) supporting: Box<[u64]>,
    /// Words in the sentence that exclude the entry.
    pub(crate) excluding: Box<[u64]>,
}

/// End of an entry at a node of the trie.
#[derive(Debug, Clone)]
struct Terminal {
    entry: u32,
    /// Only accepted spelling, if any.
    exact: Option<&'static str>,
    /// Whether this alias or name is unambiguous and needs no evidence.
    is_unambiguous: bool,
}

/// Number of a trie node; the root is 0.
type NodeNumber = u32;

/// Match of `entry` from one token up to, but excluding, token `end`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Match {
    pub(crate) end: usize,
    pub(crate) entry: usize,
    pub(crate) is_unambiguous: bool,
}

/// Trie in compact form: one table of the edges of all nodes, and one list of their terminals. It stays in memory as
/// long as the daemon runs, and separate tables for thousands of nodes would take several times as much.
#[derive(Debug, Default)]
pub(crate) struct Gazetteer {
    pub(crate) entries: Vec<Entry>,
    symbols: HashMap<Box<str>, u32>,
    edges: HashMap<(NodeNumber, u32), NodeNumber>,
    /// Sorted by node after loading.
    terminals: Vec<(NodeNumber, Terminal)>,
}

static GAZETTEER: LazyLock<Gazetteer> = LazyLock::new(Gazetteer::read);

/// Returns the compiled-in gazetteer.
pub(crate) fn gazetteer() -> &'static Gazetteer {
    &GAZETTEER
}

impl Gazetteer {
    fn read() -> Self {
        let mut gazetteer = Self::default();
        for file in [TECHNOLOGY, CONCEPTS] {
            gazetteer.read_entries(file);
        }
        // Stable sort: terminals of a node stay in file order.
        gazetteer.terminals.sort_by_key(|(node, _)| *node);
        gazetteer.entries.shrink_to_fit();
        gazetteer.symbols.shrink_to_fit();
        gazetteer.edges.shrink_to_fit();
        gazetteer.terminals.shrink_to_fit();
        gazetteer
    }

    fn next_entry(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    fn read_entries(&mut self, file: &'static str) {
        let mut entity_type = EntityType::Concept;
        for line in file.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('@') {
                entity_type = EntityType::from_name(name).unwrap_or(entity_type);
                continue;
            }
            let mut columns = line.split('|').map(str::trim);
            let name = columns.next().unwrap_or_default();
            let aliases: Vec<&'static str> = columns
                .next()
                .unwrap_or_default()
                .split(',')
                .map(str::trim)
                .filter(|alias| !alias.is_empty())
                .collect();
            let (mut rule, mut supporting, mut excluding) = (Rule::Certain, Vec::new(), Vec::new());
            for word in columns.next().unwrap_or_default().split_whitespace() {
                match word {
                    "cased" => rule = Rule::Cased,
                    "context" => rule = Rule::Context,
                    "spoken" => rule = Rule::Spoken,
                    _ => match word.split_at(1) {
                        ("+", word) => supporting.push(hash(&fold(word))),
                        (_, word) => excluding.push(hash(&fold(word))),
                    },
                }
            }
            let entry = self.next_entry();
            let key = fold(name).into();
            let (supporting, excluding) = (supporting.into(), excluding.into());
            self.entries.push(Entry { name, key, entity_type, rule, supporting, excluding });
            let is_exact = aliases.iter().any(|alias| alias.strip_prefix('=') == Some(name));
            if !is_exact {
                self.insert(name, Terminal { entry, exact: None, is_unambiguous: rule == Rule::Certain });
            }
            for alias in aliases {
                let exact = alias.strip_prefix('=');
                let alias = alias.trim_start_matches('=');
                // An alias is usually clearer than the name, unless it is shorter.
                let is_unambiguous = rule == Rule::Certain || exact.is_some() || alias.len() > name.len();
                self.insert(alias, Terminal { entry, exact, is_unambiguous });
            }
        }
    }

    fn insert(&mut self, alias: &str, terminal: Terminal) {
        let entity_type = self.entries[terminal.entry as usize].entity_type;
        let is_concept = entity_type == EntityType::Concept && terminal.exact.is_none();
        self.insert_one(alias, terminal.clone());
        if is_concept && !alias.ends_with('s') {
            let plural = match alias.strip_suffix('y') {
                Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
                _ => format!("{alias}s"),
            };
            self.insert_one(&plural, terminal);
        }
    }

    fn insert_one(&mut self, alias: &str, terminal: Terminal) {
        let text = Text::new(alias);
        let mut node: NodeNumber = 0;
        for index in 0..text.tokens.len() {
            if is_skipped_hyphen(&text, index) {
                continue;
            }
            let count = u32::try_from(self.symbols.len()).unwrap_or(u32::MAX);
            let symbol = *self.symbols.entry(symbol_of(&text, index)).or_insert(count);
            // Each edge leads to a separate node.
            let next = u32::try_from(self.edges.len() + 1).unwrap_or(u32::MAX);
            node = *self.edges.entry((node, symbol)).or_insert(next);
        }
        // An entry's own aliases are adjacent.
        let mut own = self.terminals.iter().rev().take_while(|(_, known)| known.entry == terminal.entry);
        if node > 0 && !own.any(|(at, known)| *at == node && known.exact == terminal.exact) {
            self.terminals.push((node, terminal));
        }
    }

    fn ending_at(&self, node: NodeNumber) -> impl Iterator<Item = &Terminal> {
        let first = self.terminals.partition_point(|(at, _)| *at < node);
        self.terminals[first..].iter().take_while(move |(at, _)| *at == node).map(|(_, terminal)| terminal)
    }

    /// Appends every entry that starts at token `start`. Aliases have only a few tokens, so the time is constant.
    pub(crate) fn matches(&self, text: &Text<'_>, start: usize, found: &mut Vec<Match>) {
        let mut node: NodeNumber = 0;
        let mut symbol = String::new();
        let mut index = start;
        while let Some(token) = text.get(index) {
            if index > start && (token.kind == Kind::Opaque || !text.same_sentence(start, index)) {
                return;
            }
            if index > start && is_skipped_hyphen(text, index) {
                index += 1;
                continue;
            }
            symbol.clear();
            if index > start && is_glued(text, index) {
                symbol.push('\u{1}');
            }
            symbol.push_str(text.folded(index));
            let Some(edge) = self.symbols.get(symbol.as_str()) else { return };
            let Some(&target) = self.edges.get(&(node, *edge)) else { return };
            node = target;
            index += 1;
            for terminal in self.ending_at(node) {
                let is_spelled = terminal.exact.is_none_or(|exact| exact == text.source_of(start..index));
                if is_spelled {
                    let entry = terminal.entry as usize;
                    found.push(Match { end: index, entry, is_unambiguous: terminal.is_unambiguous });
                }
            }
        }
    }
}

/// Whether the token has no space before it, and is or follows a mark.
fn is_glued(text: &Text<'_>, index: usize) -> bool {
    let (Some(token), Some(previous)) = (text.get(index), index.checked_sub(1).and_then(|before| text.get(before)))
    else {
        return false;
    };
    let after_mark = previous.kind == Kind::Mark && !is_skipped_hyphen(text, index - 1);
    !token.is_spaced && (token.kind == Kind::Mark || after_mark)
}

fn symbol_of(text: &Text<'_>, index: usize) -> Box<str> {
    let folded = text.folded(index);
    if index > 0 && is_glued(text, index) { format!("\u{1}{folded}").into() } else { folded.into() }
}

/// Whether the token is a hyphen inside a compound.
fn is_skipped_hyphen(text: &Text<'_>, index: usize) -> bool {
    let is_inner = |token: &crate::text::Token| !token.is_spaced && matches!(token.kind, Kind::Word | Kind::Number);
    matches!(text.folded(index), "-" | "\u{2010}" | "\u{2011}")
        && text.get(index).is_some_and(|token| !token.is_spaced)
        && text.get(index + 1).is_some_and(is_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Rule, gazetteer};
    use crate::types::EntityType;

    #[test]
    fn gazetteer_is_broad_and_has_no_duplicates() {
        let mut seen = HashSet::new();
        for entry in &gazetteer().entries {
            assert!(!entry.key.is_empty());
            assert!(seen.insert((entry.entity_type, &entry.key)), "{} is listed twice", entry.name);
        }
        let count = |wanted: EntityType| gazetteer().entries.iter().filter(|entry| entry.entity_type == wanted).count();
        let technical = count(EntityType::Language) + count(EntityType::Framework) + count(EntityType::Tool);
        assert!(technical >= 450, "{technical}");
        assert!(count(EntityType::Concept) >= 350);
    }

    #[test]
    fn common_words_need_evidence() {
        for (name, entity_type) in [("go", EntityType::Language), ("swift", EntityType::Language)] {
            let entry =
                gazetteer().entries.iter().find(|entry| &*entry.key == name && entry.entity_type == entity_type);
            assert_ne!(entry.unwrap().rule, Rule::Certain);
        }
    }
}
