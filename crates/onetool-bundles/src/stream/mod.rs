//! Replies that are streams of events: each event is reported as progress, and together they form the value.
//!
//! Texts that arrive together are reported together; the joined reports are the whole text. Events, bytes and time are
//! limited. Dropping the reader ends the request.

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use onetool_outbound::{Event, EventReader, Framing};
use onetool_sdk::{ErrorKind, Progress, ProgressSink, Redactor, ToolError};
use onetool_state::bundles::{HttpImplementation, ResponseEncoding, StreamFormat, StreamResult, StreamRule};
use reqwest::Url;
use serde_json::Value as Json;
use serde_json_path::JsonPath;

use super::engine::HttpEngine;
use super::extract::Extract;
use super::limits::{ERROR_EXCERPT_CHARS, PROGRESS_CHARS};
use super::reply::{Reply, host_of, upstream};

/// A parsed `stream` block.
#[derive(Debug)]
pub(crate) struct Stream {
    format: StreamFormat,
    text: Option<JsonPath>,
    names: Vec<String>,
    done: String,
    /// Whether the stream must end with `done`.
    must_end: bool,
    error: Option<JsonPath>,
    result: StreamResult,
}

const DONE: &str = "[DONE]";

impl Stream {
    pub(crate) fn compile(rule: &StreamRule, http: &HttpImplementation, extract: &Extract) -> Result<Self, String> {
        let path = |text: &str, name: &str| {
            let path = (!text.is_empty()).then(|| JsonPath::parse(text));
            path.transpose().map_err(|error| format!("stream.{name}: {error}"))
        };
        let text = path(&rule.text, "text")?;
        let usual = if text.is_some() { StreamResult::Text } else { StreamResult::Events };
        let result = rule.result.unwrap_or(usual);
        if result == StreamResult::Text && text.is_none() {
            return Err("stream.result is text, but stream.text does not say where the text is".to_owned());
        }
        match extract {
            Extract::Path { .. } if result == StreamResult::Text => {
                return Err(
                    "a JSONPath in extractExpr does not fit a stream whose result is text; set stream.result to \
                            last or events"
                        .to_owned(),
                );
            }
            Extract::Pattern(_) if result != StreamResult::Text => {
                return Err("a pattern in extractExpr fits a stream whose result is text only".to_owned());
            }
            _ => {}
        }
        if http.paginate.is_some() {
            return Err("a tool has stream or paginate, not both".to_owned());
        }
        if http.response_encoding == ResponseEncoding::Text && text.is_some() {
            return Err("stream.text needs responseEncoding json".to_owned());
        }
        if rule.done.as_ref().is_some_and(String::is_empty) {
            return Err("stream.done must not be empty".to_owned());
        }
        Ok(Self {
            format: rule.format,
            text,
            names: rule.events.clone(),
            done: rule.done.clone().unwrap_or_else(|| DONE.to_owned()),
            must_end: rule.done.is_some(),
            error: path(&rule.error, "error")?,
            result,
        })
    }

    /// How events are framed; `None` for a reply that is not a stream.
    fn framing(&self, url: &Url, reply: &Reply) -> Result<Option<Framing>, ToolError> {
        let kind = reply.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_sse = kind == "text/event-stream";
        let is_lines = kind.contains("ndjson") || kind.contains("jsonl") || kind.contains("json-lines");
        let wrong = |wanted: &str| {
            let kind = if kind.is_empty() { "no content type" } else { &kind };
            let message = format!("{} answered with {kind}, not with {wanted}", host_of(url));
            upstream(Some(reply.status), &message)
        };
        match self.format {
            StreamFormat::Auto if is_sse => Ok(Some(Framing::Sse)),
            StreamFormat::Auto if is_lines => Ok(Some(Framing::Lines)),
            // A server without a stream may send one JSON reply.
            StreamFormat::Auto if kind == "application/json" => Ok(None),
            StreamFormat::Auto => Err(wrong("a stream of events").with_hint("set stream.format to sse or ndjson")),
            StreamFormat::Sse if is_sse => Ok(Some(Framing::Sse)),
            StreamFormat::Sse => Err(wrong("text/event-stream")),
            // Many servers send NDJSON with the type of text or JSON.
            StreamFormat::Ndjson if is_sse || kind.contains("html") => Err(wrong("lines of JSON")),
            StreamFormat::Ndjson => Ok(Some(Framing::Lines)),
        }
    }
}

/// The data collected from a stream.
#[derive(Default)]
struct Gathered {
    text: String,
    last: Json,
    events: Vec<Json>,
    count: usize,
    bytes: usize,
}

/// How to proceed after an event.
enum Step {
    Skip,
    /// Text to be shown.
    Show(String),
    End,
}

/// Everything that reading a stream needs.
pub(crate) struct Reader<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) extract: &'a Extract,
    pub(crate) encoding: ResponseEncoding,
    pub(crate) url: &'a Url,
    pub(crate) redactor: &'a Redactor,
    /// Values to mask, even when split across chunks.
    pub(crate) masks: &'a [&'a str],
    pub(crate) progress: Arc<dyn ProgressSink>,
}

/// The value of a stream and its number of events; `None` if the reply is not a stream.
pub(crate) type StreamOutcome = Option<(Json, usize)>;

impl HttpEngine {
    /// Reads a live reply to its end.
    pub(crate) async fn read_stream(&self, reader: &Reader<'_>, reply: &mut Reply) -> Result<StreamOutcome, ToolError> {
        let Some(framing) = reader.stream.framing(reader.url, reply)? else { return Ok(None) };
        let Some(mut response) = reply.live.take() else { return Ok(None) };
        let settings = &self.settings;
        let mut events = EventReader::new(framing);
        let mut gathered = Gathered::default();
        let mut is_over = false;
        // Text that has not been reported yet.
        let mut shown = String::new();
        while !is_over {
            let host = host_of(reader.url);
            let chunk = tokio::time::timeout(settings.max_stream_idle, response.chunk())
                .await
                .map_err(|_| idle(&host, settings.max_stream_idle, gathered.count))?;
            let chunk = chunk.map_err(|_| {
                let message = format!("{host} broke off its stream after {} events", gathered.count);
                upstream(Some(reply.status), &message)
            })?;
            let arrived = match &chunk {
                Some(bytes) => {
                    gathered.bytes += bytes.len();
                    if gathered.bytes > settings.max_stream_bytes {
                        return Err(too_large("bytes", settings.max_stream_bytes, "http.max_stream_bytes"));
                    }
                    events.feed(bytes)
                }
                None => events.finish().into_iter().collect(),
            };
            for event in arrived {
                gathered.count += 1;
                if gathered.count > settings.max_stream_events {
                    return Err(too_large("events", settings.max_stream_events, "http.max_stream_events"));
                }
                match reader.take(event, &mut gathered)? {
                    Step::Skip => {}
                    Step::Show(text) => shown.push_str(&text),
                    Step::End => {
                        is_over = true;
                        break;
                    }
                }
            }
            // Text that may be the beginning of a secret is held back until more arrives.
            let is_last = is_over || chunk.is_none();
            let kept = if is_last { 0 } else { reader.masks.iter().map(|mask| begun(&shown, mask)).max().unwrap_or(0) };
            let rest = shown.split_off(shown.len() - kept);
            if shown.is_empty() {
                shown = rest;
            } else {
                let message = reader.redactor.owned(std::mem::replace(&mut shown, rest));
                reader.progress.report(Progress { done: gathered.count as f64, total: None, message: Some(message) });
            }
            if chunk.is_none() {
                if reader.stream.must_end && !is_over {
                    let message = format!("{host} ended its stream without '{}'", reader.stream.done);
                    return Err(upstream(Some(reply.status), &message));
                }
                break;
            }
        }
        let count = gathered.count;
        Ok(Some((reader.value(gathered), count)))
    }
}

impl Reader<'_> {
    fn take(&self, event: Event, gathered: &mut Gathered) -> Result<Step, ToolError> {
        let stream = self.stream;
        if !stream.names.is_empty() && !stream.names.contains(&event.name) {
            return Ok(Step::Skip);
        }
        if event.data.trim() == stream.done {
            return Ok(Step::End);
        }
        let json = match self.encoding {
            ResponseEncoding::Text => Json::from(event.data.as_str()),
            ResponseEncoding::Json => {
                serde_json::from_str(&event.data).unwrap_or_else(|_| Json::from(event.data.as_str()))
            }
        };
        if let Some(found) = stream.error.as_ref().and_then(|path| path.query(&json).first().cloned())
            && !found.is_null()
        {
            let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            let excerpt: String = text.chars().take(ERROR_EXCERPT_CHARS).collect();
            return Err(upstream(None, &format!("{} reports in its stream: {excerpt}", host_of(self.url))));
        }
        let shown: String = match &stream.text {
            Some(path) => path.query(&json).iter().filter_map(|node| node.as_str()).collect(),
            // Without a text path, progress shows the events themselves, one per line.
            None => event.data.chars().take(PROGRESS_CHARS).chain(['\n']).collect(),
        };
        match stream.result {
            StreamResult::Text => gathered.text.push_str(&shown),
            StreamResult::Last => gathered.last = json,
            StreamResult::Events => gathered.events.push(json),
        }
        Ok(if shown.is_empty() { Step::Skip } else { Step::Show(shown) })
    }

    fn value(&self, gathered: Gathered) -> Json {
        match self.stream.result {
            StreamResult::Text => match self.extract {
                Extract::Pattern(pattern) => Extract::from_text(pattern, &gathered.text),
                Extract::Whole | Extract::Path { .. } => Json::from(gathered.text),
            },
            StreamResult::Last => self.extract.from_value(gathered.last),
            StreamResult::Events => self.extract.from_value(Json::Array(gathered.events)),
        }
    }
}

/// Number of bytes at the end of a text that may be the beginning of a secret.
fn begun(text: &str, secret: &str) -> usize {
    let longest = text.len().min(secret.len().saturating_sub(1));
    let is_begun =
        |bytes: &usize| text.is_char_boundary(text.len() - bytes) && secret.starts_with(&text[text.len() - bytes..]);
    (1..=longest).rev().find(is_begun).unwrap_or(0)
}

fn idle(host: &str, patience: Duration, events: usize) -> ToolError {
    let seconds = patience.as_secs_f64();
    let message = format!("{host} sent nothing for {seconds} s, after {events} events of its stream");
    ToolError::new(ErrorKind::Timeout, message).with_hint("raise http.max_stream_idle if it is known to pause")
}

fn too_large(what: &str, limit: usize, key: &str) -> ToolError {
    ToolError::new(ErrorKind::TooLarge, format!("the stream has more than {limit} {what}"))
        .with_hint(format!("ask for less, or raise {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_secret_is_seen_at_the_end_of_a_text() {
        for (text, secret, bytes) in [
            ("say abc", "abcd", 3),
            ("abcd", "abcd", 0),
            ("xa", "aab", 1),
            ("é", "é!", 2),
            ("", "abc", 0),
            ("a", "a", 0),
        ] {
            assert_eq!(begun(text, secret), bytes, "{text} {secret}");
        }
    }
}
