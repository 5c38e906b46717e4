//! Incremental parser of server-sent events of bounded length.
//!
//! Implements <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>.

use sse_stream_for_rmcp::Sse;

/// Accepted range of the server's reconnection delay, in milliseconds.
const RETRY_MS: std::ops::RangeInclusive<u64> = 1_000..=60_000;

/// Error for an event longer than the limit; the rest of the stream cannot be parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventTooLarge;

/// Parser that accepts bytes and returns complete events.
#[derive(Debug)]
pub(super) struct EventParser {
    limit: usize,
    line: Vec<u8>,
    last_was_return: bool,
    at_start: bool,
    event: Sse,
    event_bytes: usize,
    /// Inside a comment, whose bytes are discarded.
    in_comment: bool,
}

impl EventParser {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            last_was_return: false,
            at_start: true,
            event: Sse::default(),
            event_bytes: 0,
            in_comment: false,
        }
    }

    /// Adds the events that end within `chunk` to `events`.
    ///
    /// # Errors
    /// [`EventTooLarge`].
    pub(super) fn feed(&mut self, chunk: &[u8], events: &mut Vec<Sse>) -> Result<(), EventTooLarge> {
        for &byte in chunk {
            if std::mem::take(&mut self.last_was_return) && byte == b'\n' {
                continue;
            }
            match byte {
                b'\r' | b'\n' => {
                    self.last_was_return = byte == b'\r';
                    events.extend(self.finish_line());
                }
                _ if self.in_comment => {}
                b':' if self.line.is_empty() => self.in_comment = true,
                _ => {
                    self.line.push(byte);
                    if self.line.len() + self.event_bytes > self.limit {
                        return Err(EventTooLarge);
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends a line; an empty one ends the event.
    fn finish_line(&mut self) -> Option<Sse> {
        if std::mem::take(&mut self.in_comment) {
            return None;
        }
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            self.event_bytes = 0;
            let event = std::mem::take(&mut self.event);
            let has_content = event.data.is_some() || event.id.is_some() || event.retry.is_some();
            return has_content.then_some(event);
        }
        self.event_bytes += line.len() + 1;
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match field {
            b"event" => self.event.event = Some(value.into_owned()),
            b"data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(&value);
                }
                data => *data = Some(value.into_owned()),
            },
            b"id" if !value.contains('\0') => self.event.id = Some(value.into_owned()),
            b"retry" => {
                let milliseconds = value.parse::<u64>().ok();
                self.event.retry = milliseconds.map(|ms| ms.clamp(*RETRY_MS.start(), *RETRY_MS.end()));
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Vec<Sse> {
        let mut events = Vec::new();
        EventParser::new(10_000).feed(text.as_bytes(), &mut events).expect("a short text");
        events
    }

    #[test]
    fn fields_comments_and_line_ends_are_parsed() {
        let events =
            parse("\u{feff}: hello\r\nevent: message\r\nid: 7\r\ndata: a\r\ndata:b\r\n\r\ndata\rretry: 5\r\r: x\n\n");
        assert_eq!(events.len(), 2);
        assert_eq!((events[0].event.as_deref(), events[0].id.as_deref()), (Some("message"), Some("7")));
        assert_eq!(events[0].data.as_deref(), Some("a\nb"));
        assert_eq!((events[1].data.as_deref(), events[1].retry), (Some(""), Some(1_000)));
    }

    #[test]
    fn unfinished_event_is_not_returned() {
        assert!(parse("data: a").is_empty());
        assert!(parse("data: a\n").is_empty());
    }

    #[test]
    fn event_above_the_limit_is_rejected() {
        let mut events = Vec::new();
        let line = format!("data: {}", "x".repeat(200));
        assert_eq!(EventParser::new(100).feed(line.as_bytes(), &mut events), Err(EventTooLarge));
        let lines = "data: xxxxx\n".repeat(20);
        assert_eq!(EventParser::new(100).feed(lines.as_bytes(), &mut events), Err(EventTooLarge));
        let events_of_their_own = "data: xxxxx\n\n".repeat(20);
        assert_eq!(EventParser::new(100).feed(events_of_their_own.as_bytes(), &mut events), Ok(()));
        assert_eq!(events.len(), 20);
        let comment = format!(":{}\n\n", "x".repeat(1_000));
        assert_eq!(EventParser::new(100).feed(comment.as_bytes(), &mut events), Ok(()));
    }

    proptest! {
        #[test]
        fn events_are_parsed_for_any_chunking(
            data in prop::collection::vec("[^\r\n]{0,20}", 1..8),
            size in 1usize..9,
        ) {
            let text: String = data.iter().map(|data| format!("data: {data}\n\n")).collect();
            let mut parser = EventParser::new(1_000);
            let mut events = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                prop_assert_eq!(parser.feed(chunk, &mut events), Ok(()));
            }
            let read: Vec<_> = events.into_iter().filter_map(|event| event.data).collect();
            prop_assert_eq!(read, data);
        }

        #[test]
        fn parser_never_panics_and_is_bounded(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut parser = EventParser::new(50);
            let mut events = Vec::new();
            let _ = parser.feed(&bytes, &mut events);
            prop_assert!(parser.line.len() + parser.event_bytes <= 52);
        }
    }
}
