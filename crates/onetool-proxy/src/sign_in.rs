//! Signing in during a call: the client is asked to open an address, and the call continues when that is done.

use std::sync::Arc;

use onetool_sdk::ToolError;
use serde_json::{Value as Json, json};

use super::calls::{CallLink, Question};
use super::connection::{Connection, Failure};
use super::handler::{Subject, ask};
use super::requests::Request;
use super::server::Server;
use super::settings::limits;

impl Server {
    pub(super) fn needs_sign_in(&self) -> bool {
        self.oauth.as_ref().is_some_and(|oauth| oauth.needs_sign_in())
    }
}

impl Request<'_> {
    /// Returns the connection after a sign-in. If no one can be asked, returns `error` with what to do.
    pub(super) async fn signed_in(&self, error: ToolError, link: &Arc<CallLink>) -> Result<Arc<Connection>, ToolError> {
        let server = &self.server.settings.name;
        let Some(oauth) = &self.server.oauth else { return Err(error) };
        let by_hand = format!("run: onetool servers login {server}");
        if self.ctx.client.is_none() && !self.server.waits_for_sign_in() {
            return Err(error.with_hint(by_hand));
        }
        let begun = tokio::time::timeout(limits::SIGN_IN_BEGINS, oauth.begin(false)).await;
        let url = match begun {
            Ok(Ok(url)) => url,
            Ok(Err(reason)) => {
                let message = format!("{}; where to sign in can't be found out: {reason}", error.message);
                return Err(ToolError::unavailable(message).with_hint(by_hand));
            }
            Err(_) => return Err(error.with_hint(by_hand)),
        };
        let hint = if self.server.waits_for_sign_in() {
            format!("open {url} in a browser to sign in, or {by_hand}")
        } else {
            by_hand
        };
        let Some(client) = self.ctx.client.clone() else { return Err(error.with_hint(hint)) };
        let question = Question::new(client, vec![link.clone()]);
        let params = json!({
            "mode": "url",
            "message": format!("The server '{server}' needs you to sign in."),
            "url": url,
            "elicitationId": format!("sign-in-{server}"),
        });
        let over = oauth.finished();
        tokio::pin!(over);
        let mut is_over = None;
        let answer = tokio::select! {
            answer = ask(&question, Subject::Elicitation, params) => answer,
            () = self.ctx.cancel.cancelled() => return Err(self.failed(Failure::Cancelled)),
            // Someone may have opened it in another way.
            finished = &mut over => {
                is_over = Some(finished);
                Ok(json!({"action": "accept"}))
            }
        };
        let accepts = |answer: &Json| answer.get("action").and_then(Json::as_str) == Some("accept");
        if !answer.as_ref().is_ok_and(accepts) {
            return Err(error.with_hint(hint));
        }
        let patience = self.ctx.remaining().unwrap_or(limits::CLIENT_ANSWER);
        let finished = match is_over {
            Some(finished) => Ok(finished),
            None => tokio::select! {
                finished = tokio::time::timeout(patience, &mut over) => finished,
                () = self.ctx.cancel.cancelled() => return Err(self.failed(Failure::Cancelled)),
            },
        };
        drop(question);
        match finished {
            Ok(Ok(())) => self.server.connection(self.ctx).await,
            Ok(Err(reason)) => Err(ToolError::unavailable(format!("{}; {reason}", error.message)).with_hint(hint)),
            Err(_) => Err(error.with_hint(hint)),
        }
    }
}
