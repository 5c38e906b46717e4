//! Realistic texts and queries: passages of this project's documentation, the same in every run.

const SOURCES: [&str; 9] = [
    include_str!("../../../../scripts/tagger/chat-en.txt"),
    include_str!("../../../../ARCHITECTURE.md"),
    include_str!("../../../../docs/guides/agents.md"),
    include_str!("../../../../docs/guides/approvals.md"),
    include_str!("../../../../docs/guides/devices.md"),
    include_str!("../../../../docs/guides/tool-servers.md"),
    include_str!("../../../../docs/guides/tools.md"),
    include_str!("../../../../docs/operations/backup.md"),
    include_str!("../../../../docs/operations/install.md"),
];

pub(crate) struct Texts {
    words: Vec<String>,
    state: u64,
}

impl Texts {
    pub(crate) fn new(seed: u64) -> Self {
        let words = SOURCES
            .iter()
            .flat_map(|source| source.split(|character: char| !character.is_alphanumeric()))
            .filter(|word| word.len() > 1 || word.chars().all(char::is_alphabetic))
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        Self { words, state: seed }
    }

    pub(crate) fn number(&mut self, below: usize) -> usize {
        // A linear congruential generator with the constants of Knuth's MMIX.
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).unwrap_or_default() % below
    }

    fn piece(&mut self, words: usize) -> String {
        let start = self.number(self.words.len() - words);
        self.words[start..start + words].join(" ")
    }

    /// Returns 10 to 20 words with a full stop, which occurs nowhere else.
    pub(crate) fn sentence(&mut self) -> String {
        let words = 10 + self.number(11);
        format!("{}.", self.piece(words))
    }

    /// Returns two sentences: 20 to 40 words.
    pub(crate) fn text(&mut self) -> String {
        format!("{} {}", self.sentence(), self.sentence())
    }

    /// 3 to 12 words, in small letters: the search takes a capitalized word for a name, which it may leave out of
    /// what is embedded, and then the query is no longer one whose vector is at hand.
    pub(crate) fn query(&mut self) -> String {
        let words = 3 + self.number(10);
        self.piece(words).to_lowercase()
    }
}

/// Returns the percent-encoded text.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
