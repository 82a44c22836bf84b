//! The transport of older servers: one stream of server-sent events for all messages of the server, and a POST for each
//! message to it. The stream's first event names the address for the POSTs, which must have the same origin: headers
//! may contain secrets.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use onetool_outbound::{Event, EventReader, Framing};
use reqwest::{Client, RequestBuilder, Response, Url};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::messages;
use super::oauth::OAuth;
use super::transport::{Wire, too_long};

/// How long the stream may take to start.
const STREAM_BEGINS: Duration = Duration::from_secs(5);
/// How long a POST may take; its answer arrives on the stream.
const POST_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of messages waiting to be read.
const WAITING_MESSAGES: usize = 64;

/// An older server.
pub(super) struct SseTransport {
    client: Client,
    endpoint: Url,
    headers: HeaderMap,
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    reader: JoinHandle<()>,
    auth: Option<Arc<OAuth>>,
}

impl SseTransport {
    /// Opens the stream and reads the address for messages. Fails if the server does not support this transport.
    pub(super) async fn open(
        client: Client,
        url: &Url,
        headers: HeaderMap,
        wire: Arc<Wire>,
        auth: Option<Arc<OAuth>>,
    ) -> Result<Self, String> {
        let opening = async {
            let response = with_token(client.get(url.clone()).headers(headers.clone()), auth.as_ref())
                .await
                .header(ACCEPT, "text/event-stream")
                .send()
                .await
                .map_err(|error| error.to_string())?;
            if !response.status().is_success() || !is_event_stream(&response) {
                return Err(format!("no event stream (HTTP status {})", response.status()));
            }
            let mut events = Events::new(response, wire.max_message);
            while let Some(event) = events.next().await.map_err(|error| error.to_string())? {
                if event.name == "endpoint" {
                    return Ok((event.data, events));
                }
            }
            Err("the event stream ended before it named an address".to_owned())
        };
        let (address, events) = tokio::time::timeout(STREAM_BEGINS, opening)
            .await
            .map_err(|_| "the event stream did not begin in time".to_owned())??;
        let endpoint =
            url.join(address.trim()).map_err(|error| format!("the server named a malformed address: {error}"))?;
        if endpoint.origin() != url.origin() {
            return Err("the server named an address of another origin".to_owned());
        }
        let (sender, incoming) = mpsc::channel(WAITING_MESSAGES);
        let reader = tokio::spawn(read(events, sender, wire));
        Ok(Self { client, endpoint, headers, incoming, reader, auth })
    }
}

impl Drop for SseTransport {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn read(mut events: Events, sender: mpsc::Sender<ServerJsonRpcMessage>, wire: Arc<Wire>) {
    loop {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(error) => {
                *wire.reason.lock() = Some(error.to_string());
                return;
            }
        };
        if event.name == "message"
            && let Some(message) = messages::read(event.data.as_bytes(), &wire)
            && sender.send(message).await.is_err()
        {
            return;
        }
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = io::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let request = self.client.post(self.endpoint.clone()).headers(self.headers.clone()).timeout(POST_TIMEOUT);
        let auth = self.auth.clone();
        async move {
            let request = with_token(request, auth.as_ref()).await;
            let response = request.json(&item).send().await.map_err(io::Error::other)?;
            if response.status().is_success() {
                Ok(())
            } else {
                Err(io::Error::other(format!("the server answered with HTTP status {}", response.status())))
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.reader.abort();
        Ok(())
    }
}

/// Adds the current token to a request.
async fn with_token(request: RequestBuilder, auth: Option<&Arc<OAuth>>) -> RequestBuilder {
    let Some(auth) = auth else { return request };
    match auth.token().await {
        Ok(Some(token)) => request.bearer_auth(token),
        Ok(None) | Err(_) => request,
    }
}

fn is_event_stream(response: &Response) -> bool {
    let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.is_some_and(|media_type| media_type.starts_with("text/event-stream"))
}

/// The events of a response.
struct Events {
    chunks: futures_util::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    reader: EventReader,
    whole: VecDeque<Event>,
    /// Maximum size of an event, in bytes.
    limit: usize,
}

impl Events {
    fn new(response: Response, limit: usize) -> Self {
        let reader = EventReader::new(Framing::Sse);
        Self { chunks: response.bytes_stream().boxed(), reader, whole: VecDeque::new(), limit }
    }

    async fn next(&mut self) -> io::Result<Option<Event>> {
        loop {
            if let Some(event) = self.whole.pop_front() {
                return Ok(Some(event));
            }
            let Some(chunk) = self.chunks.next().await else { return Ok(None) };
            self.whole.extend(self.reader.feed(&chunk.map_err(io::Error::other)?));
            if self.reader.held() > self.limit {
                return Err(io::Error::other(too_long(self.limit)));
            }
        }
    }
}
