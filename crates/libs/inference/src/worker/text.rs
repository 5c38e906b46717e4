//! Assembly of token bytes into text: only complete characters, and no stop text.
//!
//! Invariant: the output is independent of how the bytes are split into pieces. Therefore the stop text that is
//! complete first ends the reply, not the one that begins first, which may still be incomplete.

/// Result of adding a piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Assembled {
    /// Text to emit. May be empty: characters and stop texts are buffered until they are complete.
    pub(crate) text: String,
    /// Whether a stop text was found; all further pieces are ignored.
    pub(crate) stopped: bool,
}

/// Assembler for the bytes of one reply.
#[derive(Debug)]
pub(crate) struct TextAssembler {
    stop: Vec<String>,
    /// Bytes of an incomplete character; at most three.
    partial: Vec<u8>,
    /// Text that may be the beginning of a stop text; shorter than the longest one.
    buffered: String,
    stopped: bool,
}

impl TextAssembler {
    /// Creates an assembler. Empty stop texts are ignored, since they would end every reply at its start.
    pub(crate) fn new(stop: Vec<String>) -> Self {
        let stop = stop.into_iter().filter(|text| !text.is_empty()).collect();
        Self { stop, partial: Vec::new(), buffered: String::new(), stopped: false }
    }

    /// Prepends `prefix` to the first piece.
    pub(crate) fn with_prefix(mut self, prefix: &str) -> Self {
        self.buffered.push_str(prefix);
        self
    }

    /// Adds a piece.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Assembled {
        if self.stopped {
            return Assembled { text: String::new(), stopped: true };
        }
        self.partial.extend_from_slice(piece);
        self.decode();
        self.release()
    }

    /// Ends the reply and returns the buffered text.
    pub(crate) fn finish(&mut self) -> String {
        if self.stopped {
            return String::new();
        }
        if !self.partial.is_empty() {
            self.partial.clear();
            self.buffered.push(char::REPLACEMENT_CHARACTER);
        }
        let released = self.release();
        if released.stopped { released.text } else { released.text + &std::mem::take(&mut self.buffered) }
    }

    /// Moves complete characters from `partial` to `buffered`; invalid bytes become U+FFFD.
    fn decode(&mut self) {
        let mut consumed = 0;
        for chunk in self.partial.utf8_chunks() {
            self.buffered.push_str(chunk.valid());
            consumed += chunk.valid().len();
            let invalid = chunk.invalid();
            if invalid.is_empty() {
                break;
            }
            let at_end = consumed + invalid.len() == self.partial.len();
            if at_end && may_be_completed(invalid) {
                break;
            }
            self.buffered.push(char::REPLACEMENT_CHARACTER);
            consumed += invalid.len();
        }
        self.partial.drain(..consumed);
    }

    fn release(&mut self) -> Assembled {
        if let Some(start) = find_first_complete(&self.stop, &self.buffered) {
            self.buffered.truncate(start);
            self.stopped = true;
            return Assembled { text: std::mem::take(&mut self.buffered), stopped: true };
        }
        let keep = self.stop.iter().map(|stop| overlap(&self.buffered, stop)).max().unwrap_or(0);
        let rest = self.buffered.split_off(self.buffered.len() - keep);
        Assembled { text: std::mem::replace(&mut self.buffered, rest), stopped: false }
    }
}

/// Returns the start of the stop text that ends first in `text`; of several that end together, the longest.
fn find_first_complete<S: AsRef<str>>(stop: &[S], text: &str) -> Option<usize> {
    let found = stop.iter().map(AsRef::as_ref).filter_map(|stop: &str| {
        let start = text.find(stop)?;
        Some((start + stop.len(), start))
    });
    found.min().map(|(_, start)| start)
}

/// Whether these bytes may be the beginning of a character.
fn may_be_completed(bytes: &[u8]) -> bool {
    matches!(std::str::from_utf8(bytes), Err(error) if error.error_len().is_none())
}

/// Returns the number of bytes at the end of `text` that are a prefix of `stop`.
pub(crate) fn overlap(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len() - 1);
    (1..=longest)
        .rev()
        .filter(|&length| stop.is_char_boundary(length))
        .find(|&length| text.ends_with(&stop[..length]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(stop: &[&str], pieces: &[&[u8]]) -> (Vec<String>, bool) {
        let mut assembler = TextAssembler::new(stop.iter().map(|&text| text.to_owned()).collect());
        let mut out = Vec::new();
        let mut stopped = false;
        for piece in pieces {
            let assembled = assembler.push(piece);
            out.push(assembled.text);
            stopped |= assembled.stopped;
        }
        out.push(assembler.finish());
        (out, stopped)
    }

    #[test]
    fn plain_pieces_are_emitted_individually() {
        assert_eq!(run(&["<end>"], &[b"a", b"b "]).0, ["a", "b ", ""]);
    }

    #[test]
    fn prefix_is_emitted_with_the_first_piece() {
        let mut assembler = TextAssembler::new(vec!["<end>".to_owned()]).with_prefix("<think>");
        assert_eq!(assembler.push(b"a").text, "<think>a");
        assert_eq!(TextAssembler::new(Vec::new()).with_prefix("<think>").finish(), "<think>");
    }

    #[test]
    fn stop_text_across_pieces_is_not_emitted() {
        let (out, stopped) = run(&["<end>"], &[b"hi<", b"en", b"d>more"]);
        assert_eq!(out.concat(), "hi");
        assert!(stopped);
    }

    #[test]
    fn partial_stop_text_is_emitted() {
        let (out, stopped) = run(&["<end>"], &[b"a<e", b"nx"]);
        assert_eq!(out, ["a", "<enx", ""]);
        assert!(!stopped);
        assert_eq!(run(&["<end>"], &[b"a<en"]).0, ["a", "<en"]);
    }

    #[test]
    fn earliest_stop_text_ends_the_reply() {
        assert_eq!(run(&["ccc", "b"], &[b"abccc"]).0.concat(), "a");
    }

    #[test]
    fn first_complete_stop_text_ends_the_reply() {
        for pieces in [vec!["xa>", "<"], vec!["xa><"], vec!["x", "a", ">", "<"]] {
            let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
            assert_eq!(run(&["a><", ">"], &pieces).0.concat(), "xa");
        }
        assert_eq!(run(&[">", "a>"], &[b"xa>"]).0.concat(), "x");
    }

    #[test]
    fn incomplete_characters_are_buffered() {
        let bytes = "é€😀".as_bytes();
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        let (out, _) = run(&[], &pieces);
        assert_eq!(out, ["", "é", "", "", "€", "", "", "", "😀", ""]);
    }

    #[test]
    fn incomplete_character_at_the_end_is_replaced() {
        assert_eq!(run(&[], &[b"a\xF0\x9F", b"\x98"]).0.concat(), "a\u{FFFD}");
        assert_eq!(run(&[], &[b"a\xFFb"]).0.concat(), "a\u{FFFD}b");
    }

    proptest! {
        #[test]
        fn output_is_independent_of_piece_boundaries(
            bytes in prop_oneof![
                "[ab<>é😀]{0,40}".prop_map(String::into_bytes),
                prop::collection::vec(any::<u8>(), 0..40),
            ],
            stop in prop::collection::vec("[ab<>é]{0,4}", 0..3),
            cuts in prop::collection::vec(1usize..4, 0..40),
        ) {
            let mut pieces = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts {
                let (piece, tail) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            pieces.push(rest);
            let stop: Vec<&str> = stop.iter().map(String::as_str).collect();
            let (out, stopped) = run(&stop, &pieces);

            let whole = String::from_utf8_lossy(&bytes).into_owned();
            // The shortest prefix of the text that ends with a stop text, minus the longest of those.
            let end = whole.char_indices().map(|(at, character)| &whole[..at + character.len_utf8()]).find_map(|read| {
                let ending = stop.iter().filter(|text| !text.is_empty() && read.ends_with(*text));
                ending.map(|text| read.len() - text.len()).min()
            });
            prop_assert_eq!(out.concat(), &whole[..end.unwrap_or(whole.len())]);
            prop_assert_eq!(stopped, end.is_some());
        }
    }
}
