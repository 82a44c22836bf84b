//! The HTTP client of the streamable transport: like the protocol library's own, but everything it reads is bounded.
//!
//! Bodies are bounded as a whole and streams event by event, both after decompression: a server does not decide how
//! much memory its answer takes. An overlong body fails its call; an overlong event ends the connection, like an
//! overlong line.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use futures_util::stream::{self, Stream, StreamExt as _};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use onetool_sdk::{TRACEPARENT, TRACESTATE};
use reqwest::{Client, RequestBuilder, Response};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta as _, JsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::common::http_header::{EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::SseStream;
use tokio_util::sync::CancellationToken;

use super::messages;
use super::oauth::{Challenge, NoToken, OAuth};
use super::settings::limits;
use super::transport::{Wire, too_long};

type Error = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// An HTTP client with limits on what it reads.
#[derive(Clone)]
pub(super) struct BoundedClient {
    client: Client,
    wire: Arc<Wire>,
    auth: Option<Arc<OAuth>>,
    /// Cancelled once the server has answered the request for the standalone stream, or the wait timed out.
    stream_answered: CancellationToken,
}

impl BoundedClient {
    pub(super) fn new(client: Client, wire: Arc<Wire>, auth: Option<Arc<OAuth>>) -> Self {
        Self { client, wire, auth, stream_answered: CancellationToken::new() }
    }

    /// Waits until the server can send requests that belong to no call: many send their questions that way, and drop
    /// them while no one listens.
    async fn can_be_asked(&self, message: &ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(request) = message else { return };
        let may_ask = matches!(
            request.request,
            ClientRequest::CallToolRequest(_)
                | ClientRequest::GetPromptRequest(_)
                | ClientRequest::ReadResourceRequest(_)
        );
        if may_ask && tokio::time::timeout(limits::STREAM_WAIT, self.stream_answered.cancelled()).await.is_err() {
            self.stream_answered.cancel();
        }
    }

    /// Sends a request with the current token, and retries once with another if the token is refused.
    async fn send(&self, make: &(dyn Fn() -> RequestBuilder + Send + Sync)) -> Result<Response, Error> {
        let Some(auth) = &self.auth else { return make().send().await.map_err(Error::Client) };
        let not_now = |reason: String| Error::UnexpectedServerResponse(Cow::Owned(reason));
        let mut lack = None;
        let mut token = match auth.token().await {
            Ok(token) => token,
            Err(NoToken::NotNow(reason)) => return Err(not_now(reason)),
            // Without a token, the server's refusal says what it requires.
            Err(NoToken::SignIn(reason)) => {
                lack = Some(reason);
                None
            }
        };
        let with = |token: &Option<String>| match token {
            Some(token) => make().bearer_auth(token),
            None => make(),
        };
        let mut response = with(&token).send().await.map_err(Error::Client)?;
        if response.status() == StatusCode::UNAUTHORIZED {
            let another = match &token {
                Some(used) => auth.renew(used).await.map(Some),
                // Someone may have signed in since the last lookup.
                None if lack.is_none() => auth.look_up().await,
                None => Ok(None),
            };
            match another {
                Ok(None) => {}
                Ok(another) => {
                    token = another;
                    response = with(&token).send().await.map_err(Error::Client)?;
                }
                Err(NoToken::NotNow(reason)) => return Err(not_now(reason)),
                Err(NoToken::SignIn(reason)) => lack = Some(reason),
            }
        }
        let status = response.status();
        let challenge = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let challenge = challenge.unwrap_or_default().to_owned();
        match status {
            StatusCode::UNAUTHORIZED => {
                auth.refused(&challenge, token.is_some());
                if let Some(reason) = lack {
                    auth.lacks(reason);
                }
                Err(Error::AuthRequired(AuthRequiredError::new(challenge)))
            }
            StatusCode::FORBIDDEN if Challenge::parse(&challenge).wants_more_scope() => {
                auth.refused(&challenge, token.is_some());
                Err(Error::AuthRequired(AuthRequiredError::new(challenge)))
            }
            status => {
                if status.is_success() {
                    auth.accepted();
                }
                Ok(response)
            }
        }
    }

    /// The current token.
    async fn bearer(&self, otherwise: Option<String>) -> Option<String> {
        match &self.auth {
            Some(auth) => auth.token().await.ok().flatten(),
            None => otherwise,
        }
    }

    /// Reads the answer to a successful POST.
    async fn answer(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
        session: Option<String>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let wants_reply = matches!(message, JsonRpcMessage::Request(_));
        let media_type = media_type(&response);
        if media_type.starts_with(EVENT_STREAM_MIME_TYPE) {
            let events = SseStream::from_bytes_stream(bounded_events(response, self.wire.clone()));
            return Ok(StreamableHttpPostResponse::Sse(events.boxed(), session));
        }
        if !media_type.starts_with(JSON_MIME_TYPE) {
            // Some servers acknowledge with an empty body without a content type.
            let is_acknowledged = !wants_reply && response.content_length() == Some(0);
            return if is_acknowledged {
                Ok(StreamableHttpPostResponse::Accepted)
            } else {
                Err(Error::UnexpectedContentType(Some(media_type)))
            };
        }
        let body = body(response, self.wire.max_message)
            .await?
            .ok_or_else(|| Error::UnexpectedServerResponse(Cow::Owned(too_long(self.wire.max_message))))?;
        match messages::read(&body, &self.wire) {
            Some(reply) => Ok(StreamableHttpPostResponse::Json(reply, session)),
            None if wants_reply => {
                let start = String::from_utf8_lossy(&body[..body.len().min(limits::REASON_CHARS)]).into_owned();
                Err(Error::UnexpectedServerResponse(Cow::Owned(format!("no message: {start}"))))
            }
            None => Ok(StreamableHttpPostResponse::Accepted),
        }
    }
}

/// The trace context of a message as headers too, which intermediaries between us and the server read.
fn trace(message: &ClientJsonRpcMessage) -> impl Iterator<Item = (&'static str, HeaderValue)> {
    let meta = match message {
        JsonRpcMessage::Request(request) => Some(request.request.get_meta()),
        _ => None,
    };
    [TRACEPARENT, TRACESTATE].into_iter().filter_map(move |name| {
        let value = meta?.0.get(name)?.as_str()?;
        Some((name, HeaderValue::try_from(value).ok()?))
    })
}

impl StreamableHttpClient for BoundedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let has_session = session_id.is_some();
        if has_session {
            self.can_be_asked(&message).await;
        }
        let make = || {
            let mut request = self.client.post(uri.as_ref());
            if let Some(token) = &auth_header {
                request = request.bearer_auth(token);
            }
            for (name, value) in &custom_headers {
                request = request.header(name, value);
            }
            for (name, value) in trace(&message) {
                request = request.header(name, value);
            }
            request = request.header(ACCEPT, [EVENT_STREAM_MIME_TYPE, JSON_MIME_TYPE].join(", "));
            if let Some(session) = &session_id {
                request = request.header(HEADER_SESSION_ID, session.as_ref());
            }
            request.json(&message)
        };
        let response = self.send(&make).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(Error::SessionExpired);
        }
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let session = header(HEADER_SESSION_ID);
        if status.is_success() {
            return self.answer(response, &message, session).await;
        }
        if status == StatusCode::UNAUTHORIZED
            && let Some(challenge) = header(WWW_AUTHENTICATE.as_str())
        {
            return Err(Error::AuthRequired(AuthRequiredError::new(challenge)));
        }
        let retry_after = header(RETRY_AFTER.as_str());
        refusal(response, retry_after, session).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Error> {
        let auth_header = self.bearer(auth_header).await;
        self.client.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxedSseResponse, Error> {
        let limit = self.wire.max_message;
        let client = &self.client;
        let auth_header = self.bearer(auth_header).await;
        let answer = client
            .get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, custom_headers, limit)
            .await;
        self.stream_answered.cancel();
        answer
    }
}

/// Converts an unsuccessful status to the error in its body, or to the status itself.
async fn refusal(
    response: Response,
    retry_after: Option<String>,
    session: Option<String>,
) -> Result<StreamableHttpPostResponse, Error> {
    let status = response.status();
    let is_json = media_type(&response).starts_with(JSON_MIME_TYPE);
    let is_denied = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if is_json && !is_denied && status != StatusCode::TOO_MANY_REQUESTS {
        let body = body(response, limits::ERROR_BODY_BYTES).await.ok().flatten().unwrap_or_default();
        if let Some(error @ JsonRpcMessage::Error(_)) = messages::read_any(&body) {
            return Ok(StreamableHttpPostResponse::Json(error, session));
        }
    }
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        return Err(HttpStatusError::new(status.as_u16(), retry_after).into());
    }
    Err(Error::UnexpectedServerResponse(Cow::Owned(format!("HTTP {status}"))))
}

fn media_type(response: &Response) -> String {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.trim().to_ascii_lowercase()
}

/// Reads the whole body; `None` if it is longer than `limit` bytes.
async fn body(mut response: Response, limit: usize) -> Result<Option<Vec<u8>>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Error::Client)? {
        if body.len() + chunk.len() > limit {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// The bytes of an event stream. An overlong event ends the connection; until it has ended, nothing more is returned,
/// so that the same event is not requested again.
fn bounded_events(response: Response, wire: Arc<Wire>) -> impl Stream<Item = reqwest::Result<bytes::Bytes>> + Send {
    let start = (response.bytes_stream().boxed(), EventSize::default(), wire);
    stream::unfold(start, |(mut chunks, mut size, wire)| async move {
        let chunk = chunks.next().await?;
        if let Ok(chunk) = &chunk {
            size.count(chunk);
            if size.event > wire.max_message {
                wire.too_long();
                wire.closed.cancel();
                std::future::pending::<()>().await;
            }
        }
        Some((chunk, (chunks, size, wire)))
    })
}

/// The size of the event being read.
#[derive(Default)]
struct EventSize {
    event: usize,
    line: usize,
}

impl EventSize {
    fn count(&mut self, chunk: &[u8]) {
        for line in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.event += line.len();
            let is_whole = line.ends_with(b"\n");
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            self.line += text.strip_suffix(b"\r").unwrap_or(text).len();
            if is_whole {
                // An empty line ends an event.
                if self.line == 0 {
                    self.event = 0;
                }
                self.line = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_one_by_one_however_they_are_cut() {
        let stream = b"data: 12345\r\n\r\nid: 1\ndata: 1\n\ndata: 123";
        for size in 1..=stream.len() {
            let mut counted = EventSize::default();
            stream.chunks(size).for_each(|chunk| counted.count(chunk));
            assert_eq!(counted.event, "data: 123".len(), "chunks of {size}");
        }
    }
}
