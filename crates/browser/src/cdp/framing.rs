//! Messages on the pipe: JSON texts, each followed by a zero byte.

/// Longer messages end the connection. A picture of a long page is the largest that is asked for.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 << 20;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a message was longer than {limit} bytes")]
pub(crate) struct TooLong {
    limit: usize,
}

/// Cuts a stream of bytes into messages.
#[derive(Debug)]
pub(crate) struct Framing {
    buffer: Vec<u8>,
    /// Where the next message begins.
    start: usize,
    /// What was looked through for its end.
    searched: usize,
    limit: usize,
}

impl Framing {
    pub(crate) fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, limit }
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

    /// The next whole message.
    ///
    /// # Errors
    /// When it is longer than the limit, whether it is whole or not.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let end = self.buffer[self.searched..].iter().position(|byte| *byte == 0).map(|at| self.searched + at);
        let length = end.unwrap_or(self.buffer.len()) - self.start;
        if length > self.limit {
            return Err(TooLong { limit: self.limit });
        }
        let Some(end) = end else {
            self.searched = self.buffer.len();
            return Ok(None);
        };
        let message = self.start..end;
        self.start = end + 1;
        self.searched = self.start;
        Ok(Some(&self.buffer[message]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(framing: &mut Framing, pieces: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut messages = Vec::new();
        for piece in pieces {
            framing.buffer().extend_from_slice(piece);
            while let Some(message) = framing.next()? {
                messages.push(message.to_vec());
            }
        }
        Ok(messages)
    }

    proptest! {
        #[test]
        fn messages_come_out_whole_however_the_bytes_arrive(
            messages in prop::collection::vec(prop::collection::vec(1u8..=255, 0..40), 0..12),
            cuts in prop::collection::vec(1usize..17, 1..40),
        ) {
            let mut stream: Vec<u8> = messages.iter().flat_map(|message| [message.as_slice(), &[0]].concat()).collect();
            let mut pieces = Vec::new();
            for size in cuts.iter().cycle() {
                if stream.is_empty() {
                    break;
                }
                pieces.push(stream.drain(..(*size).min(stream.len())).collect());
            }
            prop_assert_eq!(cut(&mut Framing::new(40), &pieces).unwrap(), messages);
        }

        #[test]
        fn what_is_too_long_is_refused_before_it_is_whole(length in 9usize..200, size in 1usize..20) {
            let pieces: Vec<Vec<u8>> = vec![b'x'; length].chunks(size).map(<[u8]>::to_vec).collect();
            let mut framing = Framing::new(8);
            prop_assert_eq!(cut(&mut framing, &pieces), Err(TooLong { limit: 8 }));
            prop_assert!(framing.buffer.len() <= 8 + size);
        }
    }
}
