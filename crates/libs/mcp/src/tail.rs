//! The end of what a program wrote, as text that can be shown.

/// Keeps the last bytes that were pushed.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
    limit: usize,
    cut: bool,
}

impl Tail {
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, cut: false }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let bytes = if bytes.len() > self.limit {
            self.cut = true;
            &bytes[bytes.len() - self.limit..]
        } else {
            bytes
        };
        let excess = (self.bytes.len() + bytes.len()).saturating_sub(self.limit);
        if excess > 0 {
            self.cut = true;
            self.bytes.drain(..excess);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Without control characters, from the first whole line on when something was cut away.
    pub(crate) fn text(&self) -> String {
        let bytes = match self.bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) if self.cut && end + 1 < self.bytes.len() => &self.bytes[end + 1..],
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
    fn begins_with_a_whole_line() {
        let mut tail = Tail::new(16);
        tail.push(b"first line\nsecond\n");
        tail.push("th\u{1b}ird".as_bytes());
        assert_eq!(tail.text(), "second\nthird");
    }

    proptest! {
        #[test]
        fn is_the_end_of_everything(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..10)) {
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
