//! Parser of Server-Sent Events from arbitrary chunks of bytes.

/// Server-Sent Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: String,
}

/// Maximum length of a line; the daemon sends no longer ones.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

/// Incremental parser.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    line: Vec<u8>,
    name: String,
    data: Vec<String>,
}

impl EventReader {
    /// Parses more bytes and returns the events that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for byte in bytes {
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                events.extend(self.end_line(&String::from_utf8_lossy(&line)));
            } else if self.line.len() < MAX_LINE_BYTES {
                self.line.push(*byte);
            }
        }
        events
    }

    fn end_line(&mut self, line: &str) -> Option<Event> {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            let data = std::mem::take(&mut self.data);
            return (!data.is_empty()).then(|| Event { name, data: data.join("\n") });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = value.to_owned(),
            "data" => self.data.push(value.to_owned()),
            // Ids and keep-alive comments.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_do_not_depend_on_chunk_boundaries(cuts in prop::collection::vec(1usize..9, 1..40)) {
            let text = "id: 1\nevent: token\ndata: {\"content\":\"Grüße\"}\n\n: wait\n\nevent: done\r\ndata: a\r\ndata: b\r\n\r\n";
            let mut reader = EventReader::default();
            let mut events = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                events.extend(reader.push(piece));
                rest = after;
                if rest.is_empty() { break; }
            }
            let event = |name: &str, data: &str| Event { name: name.to_owned(), data: data.to_owned() };
            prop_assert_eq!(events, [event("token", "{\"content\":\"Grüße\"}"), event("done", "a\nb")]);
        }
    }
}
