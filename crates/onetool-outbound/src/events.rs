//! Bytes to events: server-sent events, or one JSON value per line.

/// One event as it arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The name of a server-sent event; `message` where it has none.
    pub name: String,
    pub data: String,
}

/// How events are separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Sse,
    Lines,
}

/// Parses bytes as they arrive into complete events. Buffers no more than it is given.
#[derive(Debug)]
pub struct EventReader {
    framing: Framing,
    /// The beginning of a line that has not ended.
    line: Vec<u8>,
    /// The last byte was CR: a LF that follows belongs to it.
    after_return: bool,
    is_first_line: bool,
    name: String,
    data: Option<String>,
}

impl EventReader {
    pub fn new(framing: Framing) -> Self {
        Self { framing, line: Vec::new(), after_return: false, is_first_line: true, name: String::new(), data: None }
    }

    /// Number of buffered bytes of the unfinished event.
    pub fn held(&self) -> usize {
        self.line.len() + self.data.as_ref().map_or(0, String::len)
    }

    /// Returns the events that these bytes complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for &byte in bytes {
            let is_second_half = std::mem::take(&mut self.after_return) && byte == b'\n';
            if is_second_half {
                continue;
            }
            // A lone CR ends a line of server-sent events; in JSON it is white space.
            let ends = byte == b'\n' || byte == b'\r' && self.framing == Framing::Sse;
            if !ends {
                self.line.push(byte);
                continue;
            }
            self.after_return = byte == b'\r';
            events.extend(self.end_line());
        }
        events
    }

    /// Returns the last event when the stream ends. An unfinished server-sent event is dropped.
    pub fn finish(&mut self) -> Option<Event> {
        match self.framing {
            Framing::Lines => self.end_line(),
            Framing::Sse => None,
        }
    }

    fn end_line(&mut self) -> Option<Event> {
        let bytes = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&bytes);
        let line = if std::mem::take(&mut self.is_first_line) {
            line.strip_prefix('\u{feff}').unwrap_or(&line)
        } else {
            &line
        };
        if self.framing == Framing::Lines {
            let line = line.trim();
            return (!line.is_empty()).then(|| Event { name: "message".to_owned(), data: line.to_owned() });
        }
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            let data = self.data.take()?;
            return Some(Event { name: if name.is_empty() { "message".to_owned() } else { name }, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(framing: Framing, text: &str, piece: usize) -> Vec<(String, String)> {
        let mut reader = EventReader::new(framing);
        let mut events: Vec<Event> =
            text.as_bytes().chunks(piece.max(1)).flat_map(|bytes| reader.feed(bytes)).collect();
        events.extend(reader.finish());
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    fn pairs(events: &[(&str, &str)]) -> Vec<(String, String)> {
        events.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect()
    }

    #[test]
    fn server_sent_events_as_the_specification_says() {
        let text = "\u{feff}: hello\n\ndata: a\ndata:b\nid: 7\nretry: 5\n\nevent: x\r\ndata: c\r\n\r\ndata\rdata\r\r\
                    event: y\n\ndata: grüß\n\ndata: unfinished";
        let wanted = pairs(&[("message", "a\nb"), ("x", "c"), ("message", "\n"), ("message", "grüß")]);
        for piece in 1..text.len() {
            assert_eq!(read(Framing::Sse, text, piece), wanted, "{piece}");
        }
    }

    #[test]
    fn lines_need_no_last_newline() {
        let text = "{\"a\":1}\r\n\n  {\"b\":2}  \n[3]";
        let wanted = pairs(&[("message", "{\"a\":1}"), ("message", "{\"b\":2}"), ("message", "[3]")]);
        for piece in 1..text.len() {
            assert_eq!(read(Framing::Lines, text, piece), wanted, "{piece}");
        }
    }

    proptest! {
        #[test]
        fn how_bytes_are_cut_does_not_matter(text in "(data: ?|event: |x: |[a-z]|\r|\n|\r\n|é){0,60}", piece in 1_usize..9) {
            for framing in [Framing::Sse, Framing::Lines] {
                prop_assert_eq!(read(framing, &text, piece), read(framing, &text, usize::MAX >> 1));
            }
        }
    }
}
