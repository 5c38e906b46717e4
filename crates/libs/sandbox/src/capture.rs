//! Bounded capture of output of unknown length: its start, its end, and the number of omitted bytes.

use std::collections::VecDeque;

/// Captured output of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    pub head: Vec<u8>,
    /// Empty unless bytes were omitted.
    pub tail: Vec<u8>,
    /// Number of bytes dropped between head and tail.
    pub omitted_bytes: u64,
}

impl Captured {
    /// Returns the output as text, with a line in the middle that states the number of omitted bytes. Invalid UTF-8 is
    /// replaced.
    #[must_use]
    pub fn to_text(&self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        if self.omitted_bytes == 0 {
            return head.into_owned();
        }
        let tail = String::from_utf8_lossy(&self.tail);
        format!("{head}\n[{} bytes left out]\n{tail}", self.omitted_bytes)
    }

    /// Shortens the output to at most `kept_bytes` from its start and end.
    #[must_use]
    pub fn shortened(&self, kept_bytes: usize) -> Self {
        if self.head.len() + self.tail.len() <= kept_bytes {
            return self.clone();
        }
        let mut capture = Capture::new(kept_bytes);
        capture.push(&self.head);
        // Bytes omitted earlier lie between the two, like those omitted now.
        capture.omitted_bytes += self.omitted_bytes;
        capture.push(&self.tail);
        capture.finish()
    }

    /// Returns the total length of the stream.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.omitted_bytes + self.head.len() as u64 + self.tail.len() as u64
    }
}

/// Accumulator for a [`Captured`].
#[derive(Debug)]
pub(crate) struct Capture {
    head: Vec<u8>,
    head_bytes: usize,
    tail: VecDeque<u8>,
    tail_bytes: usize,
    omitted_bytes: u64,
}

impl Capture {
    pub(crate) fn new(kept_bytes: usize) -> Self {
        let tail_bytes = kept_bytes / 2;
        Self {
            head: Vec::new(),
            head_bytes: kept_bytes - tail_bytes,
            tail: VecDeque::new(),
            tail_bytes,
            omitted_bytes: 0,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let to_head = bytes.len().min(self.head_bytes - self.head.len());
        let (head, rest) = bytes.split_at(to_head);
        self.head.extend_from_slice(head);
        // Only the end of a long piece can be retained.
        let (dropped, rest) = rest.split_at(rest.len().saturating_sub(self.tail_bytes));
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_bytes).min(self.tail.len());
        self.tail.drain(..excess);
        self.tail.extend(rest);
        self.omitted_bytes += (dropped.len() + excess) as u64;
    }

    pub(crate) fn finish(self) -> Captured {
        let Self { mut head, tail, omitted_bytes, .. } = self;
        if omitted_bytes == 0 {
            head.extend(tail);
            return Captured { head, tail: Vec::new(), omitted_bytes };
        }
        Captured { head, tail: tail.into(), omitted_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn start_and_end_are_retained_for_any_chunking(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            kept in 0usize..80,
            piece in 1usize..50,
        ) {
            let mut capture = Capture::new(kept);
            for piece in bytes.chunks(piece) {
                capture.push(piece);
            }
            let captured = capture.finish();
            prop_assert_eq!(captured.total_bytes(), bytes.len() as u64);
            prop_assert!(captured.head.len() + captured.tail.len() <= kept);
            prop_assert!(bytes.starts_with(&captured.head));
            prop_assert!(bytes.ends_with(&captured.tail));
            if bytes.len() <= kept {
                prop_assert_eq!(captured.head, bytes);
            } else {
                prop_assert_eq!(captured.head.len() + captured.tail.len(), kept);
            }
        }
    }

    #[test]
    fn shortening_twice_counts_all_omitted_bytes() {
        let mut capture = Capture::new(8);
        capture.push(b"0123456789abcdef");
        let captured = capture.finish();
        assert_eq!(captured.shortened(8), captured);
        assert_eq!(captured.shortened(4).to_text(), "01\n[12 bytes left out]\nef");
    }

    #[test]
    fn text_states_the_omitted_bytes() {
        let mut capture = Capture::new(8);
        capture.push(b"0123456789abcdef");
        assert_eq!(capture.finish().to_text(), "0123\n[8 bytes left out]\ncdef");
    }
}
