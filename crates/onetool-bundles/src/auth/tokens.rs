//! Caches tokens until they expire. Processes that share state make at most one request per token at a time.
//!
//! In shared state a token is a document, encrypted with a key derived from the secrets that it was obtained with. The
//! same record holds a rotated refresh token. The process that redeems a token holds a lease, and writes the record
//! before it releases the lease. A redemption runs to its end even if its call is cancelled: a refresh token that was
//! redeemed but not saved would be lost.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use http::StatusCode;
use onetool_outbound::AllowedHosts;
use onetool_sdk::{ErrorKind, Redactor, ToolError};
use onetool_state::State;
use onetool_state::interface::{Collection, Expect, Key, Lease, StateError};
use onetool_state::wait;
use parking_lot::Mutex;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};

use super::clock::Learned;
use super::oauth2::{OAuth2, ReadyOAuth2, Refusal, Token};
use super::sign_text::hex;
use crate::engine::HttpEngine;
use crate::exchange::not_allowed;
use crate::limits::{LEASE_POLL, LEASE_TTL, TOKEN_TIMEOUT, TOKENS};
use crate::retry::{backoff, retry_after};

/// A refusal is cached for this long before the endpoint is asked again.
const REFUSED_FOR: TimeDelta = TimeDelta::seconds(30);
/// Maximum number of attempts to get a token.
const ATTEMPTS: u32 = 3;
/// A token endpoint that asks for a longer wait is not retried.
const LONGEST_WAIT: Duration = Duration::from_secs(8);

/// Which token is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    Any,
    /// A token other than these, which were refused.
    Instead(Vec<String>),
    /// A token for an authentication test, which ignores earlier refusals.
    Probe,
}

/// Whether a token was cached or is newly redeemed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenAge {
    Kept,
    New,
}

/// The token records of this process, by record name.
#[derive(Default)]
pub(crate) struct TokenStore {
    slots: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Record>>>>,
}

/// The tokens that share a refresh token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// By variant, see [`TokenOrder::variant`].
    tokens: BTreeMap<String, Token>,
    /// The rotated refresh token.
    refresh: Option<String>,
    refused: Option<Refused>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Refused {
    at: DateTime<Utc>,
    code: String,
    message: String,
}

/// The stored document of a record.
#[derive(Serialize, Deserialize)]
struct Sealed {
    sealed: String,
}

/// A request for a token.
#[derive(Clone)]
pub(crate) struct TokenOrder {
    pub(crate) method: Arc<OAuth2>,
    pub(crate) ready: ReadyOAuth2,
    pub(crate) wanted: Wanted,
    /// Hosts that are allowed besides the configured ones.
    pub(crate) own_hosts: AllowedHosts,
}

/// Why a redemption failed.
enum Failed {
    /// The endpoint refused.
    Refused(Refusal, Option<u16>),
    /// The endpoint could not be reached.
    Error(ToolError),
}

impl TokenOrder {
    /// Identifies this request among others that use the same refresh token.
    fn variant(&self) -> String {
        hex(derived(b"onetool token variant", &self.ready.identity()).as_ref())[..16].to_owned()
    }
}

impl TokenStore {
    fn slot(&self, name: &str) -> Arc<tokio::sync::Mutex<Record>> {
        let mut slots = self.slots.lock();
        if slots.len() >= TOKENS && !slots.contains_key(name) {
            // Records in use stay; the others can be loaded again.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        slots.entry(name.to_owned()).or_default().clone()
    }
}

impl Record {
    /// Returns a cached token or a recent refusal, without a request.
    fn answer(&self, order: &TokenOrder) -> Option<Result<Token, ToolError>> {
        if let Some(token) = self.usable(order).filter(|token| token.is_fresh()) {
            return Some(Ok(token.clone()));
        }
        let refused = self.refused.as_ref().filter(|_| order.wanted != Wanted::Probe)?;
        let age = Utc::now() - refused.at;
        (age >= TimeDelta::zero() && age < REFUSED_FOR).then(|| match self.usable(order) {
            // Renewal was refused, but this token is still valid.
            Some(token) => Ok(token.clone()),
            None => {
                let message = format!("{} (asked {} s ago)", refused.message, age.num_seconds());
                Err(refusal_error(&refused.code, message, None))
            }
        })
    }

    /// The token, unless it has expired or the caller reports it as refused.
    fn usable(&self, order: &TokenOrder) -> Option<&Token> {
        let was_refused = |token: &Token| matches!(&order.wanted, Wanted::Instead(old) if old.contains(&token.value));
        self.tokens.get(&order.variant()).filter(|token| token.is_valid() && !was_refused(token))
    }
}

impl HttpEngine {
    /// Returns a token to use now. Concurrent callers share one redemption.
    pub(crate) async fn token(self: &Arc<Self>, order: TokenOrder) -> Result<(Token, TokenAge), ToolError> {
        let engine = self.clone();
        let name = record_name(&order.ready);
        let task = tokio::spawn(async move {
            let slot = engine.tokens.slot(&name);
            let mut record = slot.lock().await;
            if let Some(answer) = record.answer(&order) {
                return answer.map(|token| (token, TokenAge::Kept));
            }
            match engine.state.clone() {
                None => engine.redeem_into(&order, &mut record).await.map(|token| (token, TokenAge::New)),
                Some(state) => engine.shared(&order, &name, &state, &mut record).await,
            }
        });
        task.await.unwrap_or_else(|_| Err(ToolError::internal("getting a token failed inside")))
    }

    /// Redeems under a lease: loads the record, waits for the lease, loads it again, redeems and saves.
    async fn shared(
        self: &Arc<Self>,
        order: &TokenOrder,
        name: &str,
        state: &State,
        record: &mut Record,
    ) -> Result<(Token, TokenAge), ToolError> {
        let until = Instant::now() + TOKEN_TIMEOUT + LEASE_TTL;
        let lease_name = format!("http-token/{name}");
        let owner = uuid::Uuid::new_v4().to_string();
        loop {
            if let Some(kept) = load(state, name, &order.ready).await.map_err(no_state)? {
                *record = kept;
                if let Some(answer) = record.answer(order) {
                    return answer.map(|token| (token, TokenAge::Kept));
                }
            }
            let lease = {
                let (state, name, owner) = (state.clone(), lease_name.clone(), owner.clone());
                off_thread(move || wait(state.leases().acquire(&name, &owner, LEASE_TTL))).await.map_err(no_state)?
            };
            if let Some(lease) = lease {
                let outcome = self.redeem_in_turn(order, name, state, record).await;
                release(state, lease).await;
                return outcome;
            }
            if Instant::now() > until {
                return Err(ToolError::new(ErrorKind::Timeout, "another process is taking too long to get a token")
                    .with_hint("try again"));
            }
            tokio::time::sleep(LEASE_POLL).await;
        }
    }

    async fn redeem_in_turn(
        self: &Arc<Self>,
        order: &TokenOrder,
        name: &str,
        state: &State,
        record: &mut Record,
    ) -> Result<(Token, TokenAge), ToolError> {
        // The previous holder of the lease may have saved a token meanwhile.
        if let Some(kept) = load(state, name, &order.ready).await.map_err(no_state)? {
            *record = kept;
            if let Some(answer) = record.answer(order) {
                return answer.map(|token| (token, TokenAge::Kept));
            }
        }
        let before = record.clone();
        let outcome = self.redeem_into(order, record).await;
        if *record != before {
            save(state, name, &order.ready, record).await.map_err(no_state)?;
        }
        outcome.map(|token| (token, TokenAge::New))
    }

    /// Redeems a token and records the result. If that fails, a token that is still valid stays in use.
    async fn redeem_into(self: &Arc<Self>, order: &TokenOrder, record: &mut Record) -> Result<Token, ToolError> {
        let outcome = self.redeem_anew(order, record).await;
        let kept = record.usable(order).filter(|_| order.wanted != Wanted::Probe);
        match (outcome, kept) {
            (Err(_), Some(token)) => Ok(token.clone()),
            (outcome, _) => outcome,
        }
    }

    async fn redeem_anew(self: &Arc<Self>, order: &TokenOrder, record: &mut Record) -> Result<Token, ToolError> {
        let outcome = tokio::time::timeout(TOKEN_TIMEOUT, self.redeem(order, record.refresh.as_deref())).await;
        let host = order.method.token_url.host_str().unwrap_or_default();
        let outcome = outcome.unwrap_or_else(|_| {
            let seconds = TOKEN_TIMEOUT.as_secs();
            Err(Failed::Error(ToolError::new(
                ErrorKind::Timeout,
                format!("{host} did not answer the request for a token within {seconds} s"),
            )))
        });
        let redactor = Redactor::new(order.ready.secrets().into_iter().chain(record.refresh.as_deref()));
        match outcome {
            Ok(token) => {
                record.refresh = token.refresh.clone().or(record.refresh.take());
                record.refused = None;
                record.tokens.retain(|_, token| token.is_valid());
                record.tokens.insert(order.variant(), token.clone());
                Ok(token)
            }
            Err(Failed::Error(mut error)) => {
                error.message = redactor.text(&error.message).into_owned();
                Err(error)
            }
            Err(Failed::Refused(refusal, status)) => {
                let code = if refusal.code.is_empty() { String::new() } else { format!(": {}", refusal.code) };
                let colon = if refusal.description.is_empty() { "" } else { ": " };
                let text = format!("{host} gave no token{code}{colon}{}", refusal.description);
                let message = redactor.text(&text).into_owned();
                if is_final(&refusal.code) {
                    let code = refusal.code.clone();
                    record.refused = Some(Refused { at: Utc::now(), code, message: message.clone() });
                }
                Err(refusal_error(&refusal.code, message, status))
            }
        }
    }

    async fn redeem(self: &Arc<Self>, order: &TokenOrder, refresh: Option<&str>) -> Result<Token, Failed> {
        let url = &order.method.token_url;
        if !self.settings.allowed_hosts.permits(url) && !order.own_hosts.permits(url) {
            return Err(Failed::Error(not_allowed(url)));
        }
        let host = url.host_str().unwrap_or_default().to_owned();
        let mut attempt = 1;
        let mut is_clock_right = false;
        loop {
            let now = self.clocks.now(&host);
            let request = order.method.request(&order.ready, refresh, now).map_err(Failed::Error)?;
            let sent = self.send(&request).await;
            let wait = match &sent {
                // A request refused by a rate limit was not processed: it may be repeated.
                Ok((reply, _)) if reply.status == StatusCode::TOO_MANY_REQUESTS => {
                    Some(retry_after(&reply.headers).unwrap_or_else(|| backoff(attempt)))
                }
                Ok((reply, _)) if order.method.may_repeat() && matches!(reply.status.as_u16(), 502..=504) => {
                    Some(retry_after(&reply.headers).unwrap_or_else(|| backoff(attempt)))
                }
                // Nothing was sent when connecting failed.
                Err(failure) if failure.is_unsent || failure.may_retry && order.method.may_repeat() => {
                    Some(backoff(attempt))
                }
                _ => None,
            };
            if let Some(wait) = wait.filter(|wait| attempt < ATTEMPTS && *wait <= LONGEST_WAIT) {
                tokio::time::sleep(wait).await;
                attempt += 1;
                continue;
            }
            let (reply, learned) = sent.map_err(|failure| Failed::Error(failure.error))?;
            let status = reply.status;
            // A refusal caused by a wrong clock says nothing about the secrets.
            let is_clock_wrong = status.is_client_error() && learned == Learned::Something;
            if is_clock_wrong && order.method.depends_on_time() && !is_clock_right {
                is_clock_right = true;
                continue;
            }
            return order.method.read(status.is_success(), &reply.body).map_err(|mut refusal| {
                if refusal.code.is_empty() && refusal.description.is_empty() {
                    refusal.description = format!("it answered {status}");
                }
                Failed::Refused(refusal, Some(status.as_u16()))
            });
        }
    }
}

/// Whether retrying with the same secrets cannot help.
fn is_final(code: &str) -> bool {
    matches!(
        code,
        "invalid_grant" | "invalid_client" | "unauthorized_client" | "invalid_scope" | "unsupported_grant_type"
    )
}

fn refusal_error(code: &str, message: String, status: Option<u16>) -> ToolError {
    let hint = match code {
        "invalid_grant" => "the refresh token or assertion is not good any more; get a new one and set its secret",
        "invalid_client" | "unauthorized_client" => {
            "check the secrets of clientId and clientSecret, and auth.clientAuth"
        }
        "invalid_scope" => "check auth.scopes",
        _ => "`onetool bundles auth test` shows which step fails",
    };
    ToolError::new(ErrorKind::Upstream { status }, message).with_hint(hint)
}

fn no_state(error: StateError) -> ToolError {
    ToolError::unavailable(format!("the token can't be shared with other processes: {error}"))
}

/// An opaque name for a record.
fn record_name(ready: &ReadyOAuth2) -> String {
    hex(derived(b"onetool token name", &ready.family()).as_ref())[..40].to_owned()
}

fn derived(purpose: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, purpose), text.as_bytes())
}

fn key(ready: &ReadyOAuth2) -> Option<LessSafeKey> {
    UnboundKey::new(&CHACHA20_POLY1305, derived(b"onetool token seal", &ready.family()).as_ref())
        .ok()
        .map(LessSafeKey::new)
}

fn seal(record: &Record, ready: &ReadyOAuth2) -> Option<Vec<u8>> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).ok()?;
    let mut bytes = serde_json::to_vec(record).ok()?;
    key(ready)?.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut bytes).ok()?;
    let sealed = STANDARD.encode([&nonce[..], &bytes].concat());
    serde_json::to_vec(&Sealed { sealed }).ok()
}

fn open(content: &[u8], ready: &ReadyOAuth2) -> Option<Record> {
    let sealed: Sealed = serde_json::from_slice(content).ok()?;
    let mut bytes = STANDARD.decode(sealed.sealed).ok()?;
    let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let plain = key(ready)?.open_in_place(nonce, Aad::empty(), sealed).ok()?;
    serde_json::from_slice(plain).ok()
}

/// Loads the record; `None` if it is missing or unreadable, and a new one is created.
async fn load(state: &State, name: &str, ready: &ReadyOAuth2) -> Result<Option<Record>, StateError> {
    let key: Key = name.parse()?;
    let state = state.clone();
    let found = off_thread(move || wait(state.documents().get(Collection::TOKENS, &key))).await?;
    Ok(found.and_then(|document| open(&document.content, ready)))
}

async fn save(state: &State, name: &str, ready: &ReadyOAuth2, record: &Record) -> Result<(), StateError> {
    let key: Key = name.parse()?;
    let content = seal(record, ready).ok_or_else(|| StateError::Invalid("a token can't be sealed".to_owned()))?;
    let state = state.clone();
    // Only the holder of the lease writes.
    off_thread(move || wait(state.documents().put(Collection::TOKENS, &key, &content, &Expect::Anything.into())))
        .await
        .map(drop)
}

async fn release(state: &State, lease: Lease) {
    let state = state.clone();
    // A lease that cannot be released expires.
    let _ = off_thread(move || wait(state.leases().release(&lease))).await;
}

/// Runs `work` on a blocking thread: shared state may wait for a disk or a lock.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StateError> + Send + 'static,
) -> Result<T, StateError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(StateError::Invalid("the shared state failed inside".to_owned())))
}
