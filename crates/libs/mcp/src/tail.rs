//! Retained end of a program's output, as displayable text.

/// Buffer that retains the last bytes pushed to it.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
    limit: usize,
    is_truncated: bool,
}

impl Tail {
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, is_truncated: false }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let bytes = if bytes.len() > self.limit {
            self.is_truncated = true;
            &bytes[bytes.len() - self.limit..]
        } else {
            bytes
        };
        let excess = (self.bytes.len() + bytes.len()).saturating_sub(self.limit);
        if excess > 0 {
            self.is_truncated = true;
            self.bytes.drain(..excess);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the text without control characters, starting at the first complete line if older bytes were dropped.
    pub(crate) fn text(&self) -> String {
        let bytes = match self.bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) if self.is_truncated && end + 1 < self.bytes.len() => &self.bytes[end + 1..],
            _ => &self.bytes[..],
        };
        String::from_utf8_lossy(bytes)
            .chars()
            .filter(|character| !character.is_control() || matches!(character, '\n' | '\t'))
            .collect::<String>()
            .trim()
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_begins_with_a_complete_line() {
        let mut tail = Tail::new(16);
        tail.push(b"first line\nsecond\n");
        tail.push("th\u{1b}ird".as_bytes());
        assert_eq!(tail.text(), "second\nthird");
    }

    proptest! {
        #[test]
        fn text_is_a_suffix_of_the_output(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..10)) {
            let mut tail = Tail::new(25);
            let mut all = Vec::new();
            for chunk in &chunks {
                tail.push(chunk);
                all.extend_from_slice(chunk);
                prop_assert!(tail.bytes.len() <= 25);
                prop_assert!(all.ends_with(&tail.bytes));
                prop_assert_eq!(tail.bytes.len(), all.len().min(25));
            }
        }
    }
}
