//! The current session: whether a token is required, what the sent one may do, and the exchange of a one-time code.

use axum::Json;
use axum::extract::Request;
use axum::http::HeaderMap;
use parking_lot::Mutex;
use utoipa_axum::routes;

use super::super::input;
use super::super::model::ErrorReply;
use super::super::routes::Routes;
use super::AdminState;
use super::model::{CodeBody, SessionReply, TokenReply};
use crate::ApiError;
use crate::Scope;
use subtle::ConstantTimeEq as _;

const MAX_BODY: usize = 4096;

/// Access to a server that was started for one browser: a one-time code is exchanged for a token.
pub struct PageSessions {
    code: Mutex<Option<String>>,
    token: String,
}

impl Default for PageSessions {
    fn default() -> Self {
        let random = || format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        Self { code: Mutex::new(Some(random())), token: random() }
    }
}

impl PageSessions {
    /// Returns the code until it is used.
    pub fn code(&self) -> Option<String> {
        self.code.lock().clone()
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    fn exchange(&self, given: &str) -> Option<&str> {
        let mut code = self.code.lock();
        let is_right = code.as_ref().is_some_and(|code| bool::from(code.as_bytes().ct_eq(given.as_bytes())));
        is_right.then(|| {
            *code = None;
            self.token.as_str()
        })
    }
}

pub(super) fn routes() -> Routes {
    Routes::default().open(routes!(get, exchange))
}

/// Returns what the sent token may do. Requires no token.
#[utoipa::path(get, path = "/api/session", tag = "session", responses((status = 200, body = SessionReply)))]
async fn get(state: AdminState, headers: HeaderMap) -> Result<Json<SessionReply>, ApiError> {
    let identity = state.access.identity(&headers).await?;
    let may_read = identity.as_ref().is_some_and(|identity| identity.may(Scope::Read));
    let (name, scopes) = identity.map(|identity| (identity.name, identity.scopes)).unwrap_or_default();
    Ok(Json(SessionReply {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        project: may_read.then(|| state.admin.operations.project()),
        principal: name,
        token_required: state.access.needs_token(),
        scopes: scopes.into_iter().map(|scope| scope.name().to_owned()).collect(),
    }))
}

/// Exchanges the code that `onetool ui` put into the address for a token. A code works once.
#[utoipa::path(post, path = "/api/session", tag = "session", request_body = CodeBody, responses(
    (status = 200, body = TokenReply),
    (status = 400, body = ErrorReply),
    (status = 401, description = "the code was used already, or is not known", body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn exchange(state: AdminState, request: Request) -> Result<Json<TokenReply>, ApiError> {
    let body: CodeBody = input::json(request, MAX_BODY).await?;
    let token = state.access.sessions().and_then(|sessions| sessions.exchange(&body.code));
    match token {
        Some(token) => Ok(Json(TokenReply { token: token.to_owned() })),
        None => {
            Err(ApiError::unauthorised("the code was used already, or is not known")
                .with_hint("start `onetool ui` again"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once() {
        let sessions = PageSessions::default();
        let code = sessions.code().unwrap();
        assert!(code.len() >= 32 && sessions.token().len() >= 32 && code != sessions.token());
        assert_eq!(sessions.exchange("wrong"), None);
        assert_eq!(sessions.exchange(&code), Some(sessions.token()));
        assert_eq!(sessions.exchange(&code), None);
        assert_eq!(sessions.code(), None);
    }
}
