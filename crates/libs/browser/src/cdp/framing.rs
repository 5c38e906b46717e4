//! Messages on the pipe: JSON texts, each followed by a zero byte.

/// Longer messages are left out. A picture of a long page is the largest that is asked for.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// What is kept of those, to see what they were.
const BEGINNING: usize = 64;

/// A message, or what a page has made too long for one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Framed<'a> {
    Whole(&'a [u8]),
    /// How it begins.
    TooLong(Vec<u8>),
}

/// Cuts a stream of bytes into messages.
#[derive(Debug)]
pub(crate) struct Framing {
    buffer: Vec<u8>,
    /// Where the next message begins.
    start: usize,
    /// What was looked through for its end.
    searched: usize,
    /// How the message begins whose rest is passed over.
    passed_over: Option<Vec<u8>>,
    limit: usize,
}

impl Framing {
    pub(crate) fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, passed_over: None, limit }
    }

    /// Where bytes are read to. Messages that were taken are gone from it.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.buffer.is_empty() {
            // A large message is no reason to keep its size for good.
            self.buffer.shrink_to(1 << 20);
        }
        &mut self.buffer
    }

    /// The next whole message, or the end of one that is too long.
    pub(crate) fn next(&mut self) -> Option<Framed<'_>> {
        let end = self.buffer[self.searched..].iter().position(|byte| *byte == 0).map(|at| self.searched + at);
        let message = self.start..end.unwrap_or(self.buffer.len());
        if message.len() > self.limit && self.passed_over.is_none() {
            let beginning = message.start..message.end.min(message.start + BEGINNING);
            self.passed_over = Some(self.buffer[beginning].to_vec());
        }
        let Some(end) = end else {
            self.searched = self.buffer.len();
            if self.passed_over.is_some() {
                self.start = self.searched;
            }
            return None;
        };
        self.start = end + 1;
        self.searched = self.start;
        Some(match self.passed_over.take() {
            Some(beginning) => Framed::TooLong(beginning),
            None => Framed::Whole(&self.buffer[message]),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// With `None` for those that are too long.
    fn cut(framing: &mut Framing, pieces: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
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
        fn messages_come_out_whole_however_the_bytes_arrive(
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
                messages.into_iter().map(|message| Some(message).filter(|it| it.len() <= limit)).collect();
            prop_assert_eq!(cut(&mut Framing::new(limit), &pieces), expected);
        }
    }

    #[test]
    fn of_a_message_that_is_too_long_its_beginning_is_known() {
        let mut framing = Framing::new(100);
        framing.buffer().extend_from_slice(&[b"{\"id\":7,", [b'x'; 200].as_slice()].concat());
        assert_eq!(framing.next(), None);
        framing.buffer().extend_from_slice(&[b'y'; 200]);
        assert_eq!(framing.next(), None);
        framing.buffer().extend_from_slice(b"}\0next\0");
        let Some(Framed::TooLong(beginning)) = framing.next() else { panic!("it was not passed over") };
        assert!(beginning.starts_with(b"{\"id\":7,x") && beginning.len() == BEGINNING);
        assert_eq!(framing.next(), Some(Framed::Whole(b"next".as_slice())));
        assert_eq!(framing.next(), None);
    }
}
