//! Message framing on the pipe: JSON texts, each terminated by a zero byte.

/// Maximum message size; longer messages are dropped. The largest expected message is a screenshot of a long page.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Number of bytes kept of an oversized message, enough to identify it.
const PREFIX_BYTES: usize = 64;

/// Complete or oversized message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Framed<'a> {
    Whole(&'a [u8]),
    /// First bytes of the message.
    TooLong(Vec<u8>),
}

/// Splits a byte stream into messages.
#[derive(Debug)]
pub(crate) struct Framing {
    buffer: Vec<u8>,
    /// Offset of the next message.
    start: usize,
    /// Offset up to which the terminator has been searched.
    searched: usize,
    /// First bytes of the oversized message whose remainder is being skipped.
    oversized: Option<Vec<u8>>,
    limit: usize,
}

impl Framing {
    pub(crate) fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, oversized: None, limit }
    }

    /// Returns the buffer to read into, after removing consumed messages.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.buffer.is_empty() {
            // Release the memory of a large message.
            self.buffer.shrink_to(1 << 20);
        }
        &mut self.buffer
    }

    /// Returns the next complete message, or an oversized one once its end was reached.
    pub(crate) fn next(&mut self) -> Option<Framed<'_>> {
        let end = self.buffer[self.searched..].iter().position(|byte| *byte == 0).map(|at| self.searched + at);
        let message = self.start..end.unwrap_or(self.buffer.len());
        if message.len() > self.limit && self.oversized.is_none() {
            let beginning = message.start..message.end.min(message.start + PREFIX_BYTES);
            self.oversized = Some(self.buffer[beginning].to_vec());
        }
        let Some(end) = end else {
            self.searched = self.buffer.len();
            if self.oversized.is_some() {
                self.start = self.searched;
            }
            return None;
        };
        self.start = end + 1;
        self.searched = self.start;
        Some(match self.oversized.take() {
            Some(beginning) => Framed::TooLong(beginning),
            None => Framed::Whole(&self.buffer[message]),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns all messages, with `None` for oversized ones.
    fn frame_all(framing: &mut Framing, pieces: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
        let mut messages = Vec::new();
        for piece in pieces {
            framing.buffer().extend_from_slice(piece);
            while let Some(message) = framing.next() {
                messages.push(if let Framed::Whole(message) = message { Some(message.to_vec()) } else { None });
            }
            assert!(framing.buffer().len() <= framing.limit + piece.len());
        }
        messages
    }

    proptest! {
        #[test]
        fn messages_are_complete_for_any_chunking(
            messages in prop::collection::vec(prop::collection::vec(1u8..=255, 0..60), 0..12),
            cuts in prop::collection::vec(1usize..17, 1..40),
            limit in 10usize..60,
        ) {
            let mut stream: Vec<u8> = messages.iter().flat_map(|message| [message.as_slice(), &[0]].concat()).collect();
            let mut pieces = Vec::new();
            for size in cuts.iter().cycle() {
                if stream.is_empty() {
                    break;
                }
                pieces.push(stream.drain(..(*size).min(stream.len())).collect());
            }
            let expected: Vec<_> =
                messages.into_iter().map(|message| Some(message).filter(|message| message.len() <= limit)).collect();
            prop_assert_eq!(frame_all(&mut Framing::new(limit), &pieces), expected);
        }
    }

    #[test]
    fn oversized_message_keeps_its_first_bytes() {
        let mut framing = Framing::new(100);
        framing.buffer().extend_from_slice(&[b"{\"id\":7,", [b'x'; 200].as_slice()].concat());
        assert_eq!(framing.next(), None);
        framing.buffer().extend_from_slice(&[b'y'; 200]);
        assert_eq!(framing.next(), None);
        framing.buffer().extend_from_slice(b"}\0next\0");
        let Some(Framed::TooLong(beginning)) = framing.next() else { panic!("message was not reported as oversized") };
        assert!(beginning.starts_with(b"{\"id\":7,x") && beginning.len() == PREFIX_BYTES);
        assert_eq!(framing.next(), Some(Framed::Whole(b"next".as_slice())));
        assert_eq!(framing.next(), None);
    }
}
