//! The browser's callback: received by a listener on this machine, or pasted by hand.

use std::io;
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::web::OAuthError;

/// The path that the browser is sent back to.
pub(crate) const PATH: &str = "/callback";
/// How long one request may take, and the maximum size of its head.
const PATIENCE: Duration = Duration::from_secs(5);
const HEAD_BYTES: usize = 16 * 1024;
/// Maximum number of connections read at once.
const ARRIVING: usize = 32;

/// What an authorization server sends back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Callback {
    pub(crate) code: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) description: Option<String>,
    /// Only the code was given: the other parameters are unknown.
    pub(crate) is_bare: bool,
}

impl Callback {
    /// Parses a whole address, a query, or a code alone.
    pub(crate) fn parse(text: &str) -> Result<Self, OAuthError> {
        let text = text.trim();
        let query = match text.split_once('?') {
            Some((_, query)) => query,
            None if text.contains("code=") || text.contains("error=") => text,
            None if text.is_empty() || text.contains(char::is_whitespace) || text.contains("://") => {
                return Err(OAuthError::Invalid("there is no code in it".to_owned()));
            }
            None => return Ok(Self { code: Some(text.to_owned()), is_bare: true, ..Self::default() }),
        };
        let query = query.split('#').next().unwrap_or_default();
        let mut url = Url::parse("http://localhost/").map_err(|error| OAuthError::Invalid(error.to_string()))?;
        url.set_query(Some(query));
        let mut callback = Self::default();
        for (name, value) in url.query_pairs() {
            let place = match &*name {
                "code" => &mut callback.code,
                "state" => &mut callback.state,
                "iss" => &mut callback.issuer,
                "error" => &mut callback.error,
                "error_description" => &mut callback.description,
                _ => continue,
            };
            // A repeated parameter may be an attack.
            if place.replace(value.into_owned()).is_some() {
                return Err(OAuthError::Invalid(format!("it names '{name}' twice")));
            }
        }
        if callback.code.is_none() && callback.error.is_none() {
            return Err(OAuthError::Invalid("there is no code in it".to_owned()));
        }
        Ok(callback)
    }
}

/// Listens on the loopback address only.
pub(crate) async fn listen(port: u16) -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// A returning browser that waits for its page.
pub(crate) struct Visitor {
    stream: TcpStream,
    pub(crate) query: String,
}

impl Visitor {
    /// Returns the next returning browser. Other connections are rejected; a silent connection, as browsers open in
    /// advance, holds up no one.
    pub(crate) async fn next(listener: &TcpListener) -> io::Result<Self> {
        let mut arriving = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept(), if arriving.len() < ARRIVING => {
                    arriving.spawn(Self::of(accepted?.0));
                }
                Some(visitor) = arriving.join_next() => {
                    if let Ok(Some(visitor)) = visitor {
                        return Ok(visitor);
                    }
                }
            }
        }
    }

    async fn of(mut stream: TcpStream) -> Option<Self> {
        let head = tokio::time::timeout(PATIENCE, read_head(&mut stream)).await.ok()?.ok()?;
        let mut words = head.split_whitespace();
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if method == "GET"
            && let Some(query) = target.strip_prefix(PATH).and_then(|rest| rest.strip_prefix('?'))
        {
            return Some(Self { query: query.to_owned(), stream });
        }
        answer(&mut stream, "404 Not Found", "There is nothing here.").await;
        None
    }

    pub(crate) async fn show(mut self, outcome: &Result<(), String>) {
        match outcome {
            Ok(()) => answer(&mut self.stream, "200 OK", "You are signed in. You can close this page.").await,
            Err(reason) => {
                answer(&mut self.stream, "400 Bad Request", &format!("The sign-in did not work: {reason}")).await;
            }
        }
    }
}

async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut chunk = [0_u8; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut chunk).await?;
        if count == 0 || head.len() + count > HEAD_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&chunk[..count]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

async fn answer(stream: &mut TcpStream, status: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let page = format!(
        "<!doctype html><meta charset=utf-8><title>OneTool</title><body style=\"font: 1.1rem system-ui; margin: 20vh auto; \
         max-width: 30rem\">{text}"
    );
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\nReferrer-Policy: no-referrer\r\n\
         Connection: close\r\n\r\n",
        page.len()
    );
    let writing = async {
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(page.as_bytes()).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(PATIENCE, writing).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_person_pastes_is_understood() {
        let whole =
            Callback::parse(" http://127.0.0.1:5/callback?code=a%2Fb&state=s&iss=https%3A%2F%2Fx#top\n").unwrap();
        assert_eq!(whole.code.as_deref(), Some("a/b"));
        assert_eq!((whole.state.as_deref(), whole.issuer.as_deref()), (Some("s"), Some("https://x")));
        assert_eq!(Callback::parse("code=a%2Fb&state=s&iss=https://x").unwrap(), whole);
        let bare = Callback::parse("4/0Axyz").unwrap();
        assert!(bare.is_bare && bare.code.as_deref() == Some("4/0Axyz"));
        assert_eq!(Callback::parse("?error=access_denied&state=s").unwrap().error.as_deref(), Some("access_denied"));
        for bad in ["", "two words", "https://x.org/callback", "?state=s", "?code=a&code=b"] {
            assert!(Callback::parse(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_silent_connection_holds_up_nobody() {
        let (listener, port) = listen(0).await.unwrap();
        let _silent = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let arrives = async {
            let mut browser = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            browser.write_all(b"GET /favicon.ico HTTP/1.1\r\n\r\n").await.unwrap();
            let mut page = String::new();
            browser.read_to_string(&mut page).await.unwrap();
            assert!(page.starts_with("HTTP/1.1 404"), "{page}");
            let mut browser = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            browser.write_all(b"GET /callback?code=a&state=b HTTP/1.1\r\n\r\n").await.unwrap();
            let mut page = String::new();
            browser.read_to_string(&mut page).await.unwrap();
            page
        };
        let waits = async { Visitor::next(&listener).await.unwrap() };
        let seen = async {
            let visitor = waits.await;
            assert_eq!(visitor.query, "code=a&state=b");
            visitor.show(&Ok(())).await;
        };
        // Before the timeout of the silent connection.
        let (page, ()) = tokio::time::timeout(PATIENCE, async { tokio::join!(arrives, seen) }).await.unwrap();
        assert!(page.contains("You are signed in"), "{page}");
    }
}
