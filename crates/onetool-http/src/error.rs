//! Errors as responses.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use onetool_sdk::{ErrorKind, ToolError};
use onetool_state::atomic::StoreError;
use onetool_state::bundles::{BundleError, NameError};

use crate::rest::{CallMeta, ErrorBody, ErrorReply};

/// Retry delay when the server has no capacity.
const BUSY_SECONDS: u64 = 5;

/// A failed request.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<String>,
    /// JSON pointer to the error in the body, the arguments or the value.
    pointer: Option<String>,
    retry_after: Option<u64>,
    /// How to authenticate, for `WWW-Authenticate`.
    challenge: Option<String>,
    meta: Option<CallMeta>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, code, message, hint: None, pointer: None, retry_after: None, challenge: None, meta: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    pub(crate) fn unauthorised(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorised", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn method(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    pub(crate) fn media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "timeout", message)
    }

    /// The server has no capacity now, but may have soon.
    pub fn busy(message: impl Into<String>) -> Self {
        let mut error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
        error.retry_after = Some(BUSY_SECONDS);
        error
    }

    /// The server is stopping; another one, or the next, may be asked.
    pub(crate) fn stopping(message: impl Into<String>, retry_after: u64) -> Self {
        let mut error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message);
        error.retry_after = Some(retry_after);
        error
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the location of the error, as a JSON pointer.
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = Some(pointer.into()).filter(|pointer| !pointer.is_empty());
        self
    }

    /// Prefixes the message with the name of one of several files.
    pub(crate) fn in_file(mut self, name: &str) -> Self {
        self.message = format!("{name}: {}", self.message);
        self
    }

    /// Sets how to authenticate.
    pub(crate) fn challenging(mut self, challenge: String) -> Self {
        self.challenge = Some(challenge);
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn with_meta(mut self, meta: CallMeta) -> Self {
        self.meta = Some(meta);
        self
    }
}

impl ApiError {
    /// The answer's body.
    pub fn reply(&self) -> ErrorReply {
        let (message, hint) = match &self.hint {
            Some(hint) => (self.message.as_str(), Some(hint.as_str())),
            // Errors from the state carry their hint in the text.
            None => onetool_sdk::split_hint(&self.message),
        };
        ErrorReply {
            ok: false,
            error: ErrorBody {
                code: self.code.to_owned(),
                message: message.to_owned(),
                hint: hint.map(str::to_owned),
                pointer: self.pointer.clone(),
            },
            meta: self.meta.clone(),
        }
    }
}

impl From<BundleError> for ApiError {
    fn from(error: BundleError) -> Self {
        let message = error.to_string();
        match error {
            BundleError::NotFound(_) => Self::not_found(message),
            BundleError::Invalid(_) | BundleError::Name(_) => {
                let pointer = leading_pointer(&message);
                Self::invalid(message).at(pointer)
            }
            BundleError::PageToken => Self::new(StatusCode::BAD_REQUEST, "bad_page_token", message),
            BundleError::Conflict(_) => Self::conflict(message),
            BundleError::BuiltIn(_) => Self::new(StatusCode::FORBIDDEN, "built_in", message),
            BundleError::Changed(_) => Self::new(StatusCode::PRECONDITION_FAILED, "changed", message),
            BundleError::Limit(_) => Self::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message),
            BundleError::Store(StoreError::Locked { .. }) | BundleError::State(_) => Self::busy(message),
            BundleError::Store(_) => {
                // Paths must not leave this machine.
                tracing::error!(%message, "the bundle store failed");
                Self::internal("the bundles could not be written").with_hint("see the log")
            }
        }
    }
}

impl From<NameError> for ApiError {
    fn from(error: NameError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<ToolError> for ApiError {
    fn from(error: ToolError) -> Self {
        let (status, code) = match &error.kind {
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            ErrorKind::Arguments => (StatusCode::BAD_REQUEST, "arguments"),
            ErrorKind::Denied => (StatusCode::FORBIDDEN, "denied"),
            ErrorKind::RateLimited { .. } => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
            ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
            ErrorKind::Cancelled => (StatusCode::CONFLICT, "cancelled"),
            ErrorKind::Unavailable => (StatusCode::CONFLICT, "unavailable"),
            ErrorKind::Upstream { .. } => (StatusCode::BAD_GATEWAY, "upstream"),
            ErrorKind::Raised { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "raised"),
            ErrorKind::Output => (StatusCode::UNPROCESSABLE_ENTITY, "output"),
            ErrorKind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            ErrorKind::Conflict => (StatusCode::CONFLICT, "conflict"),
            ErrorKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        let retry_after = match error.kind {
            ErrorKind::RateLimited { retry_after } => Some(retry_after.as_secs() + 1),
            _ => None,
        };
        let message = match &error.kind {
            ErrorKind::Raised { exception } => format!("{exception}: {}", error.message),
            _ => error.message,
        };
        let (hint, pointer) = (error.hint, error.pointer);
        Self { status, code, message, hint, pointer, retry_after, challenge: None, meta: None }
    }
}

/// Converts the location that a message begins with, such as `impl.steps[0].id: …`, to a JSON pointer.
fn leading_pointer(message: &str) -> String {
    let end = message.find([':', ' ']).unwrap_or(0);
    let place = &message[..end];
    let is_place = ["impl", "argSchema", "outputSchema", "translations", "auth", "secrets"]
        .iter()
        .any(|root| place.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '['])));
    if is_place { pointer_of(place) } else { String::new() }
}

/// Converts `a.b[0].c` to `/a/b/0/c`.
pub(crate) fn pointer_of(path: &str) -> String {
    let parts = path.split(['.', '[', ']']).filter(|part| !part.is_empty());
    parts.map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.reply())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        let challenge = self.challenge.and_then(|challenge| HeaderValue::from_str(&challenge).ok());
        let plain = (self.status == StatusCode::UNAUTHORIZED).then(|| HeaderValue::from_static("Bearer"));
        if let Some(challenge) = challenge.or(plain) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            let exposed = HeaderValue::from_static("WWW-Authenticate");
            response.headers_mut().insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
        response
    }
}
