//! The subjects of requests that only one of several servers has.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use onetool_state::interface::Key;
use serde::Deserialize;
use uuid::Uuid;

use crate::mcp::SESSION_HEADER;

/// The subject of a request that only one server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A run that waits for its client to call again with answers.
    Round(Uuid),
    /// A background run, by its id.
    Run(String),
    /// A question that a server asked in a session.
    Question { node: String },
    /// A call in a session that its client cancels, by the name from [`call_name`].
    Call(String),
    /// A run over REST that its owner cancels, by its id.
    RestRun(String),
    /// A call or a run that somebody who sees it cancels, by its number in the activity.
    Activity(u64),
}

impl Subject {
    /// Returns the subject of a message to `/mcp`, if it has one.
    pub(super) fn of(headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Message {
            method: Option<String>,
            id: Option<serde_json::Value>,
            params: Option<Params>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            request_state: Option<String>,
            task_id: Option<String>,
            request_id: Option<serde_json::Value>,
        }
        let has = |text: &[u8]| body.windows(text.len()).any(|window| window == text);
        let hints = [b"\"requestState\"", b"tasks/update".as_slice(), QUESTION.as_bytes(), CANCELLED.as_bytes()];
        if !hints.into_iter().any(has) {
            return None;
        }
        let message: Message = serde_json::from_slice(body).ok()?;
        let params = message.params.as_ref();
        match message.method.as_deref() {
            None => message.id?.as_str().and_then(question_node).map(|node| Self::Question { node: node.to_owned() }),
            Some("tasks/update") => params?.task_id.clone().filter(|id| Key::is_part(id)).map(Self::Run),
            Some(CANCELLED) => {
                let session = headers.get(SESSION_HEADER)?.to_str().ok()?;
                Some(Self::Call(call_name(session, params?.request_id.as_ref()?)))
            }
            Some(_) => {
                let state = URL_SAFE_NO_PAD.decode(params?.request_state.as_ref()?).ok()?;
                state.first_chunk::<16>().map(|id| Self::Round(Uuid::from_bytes(*id)))
            }
        }
    }

    /// Folder of the letters about it.
    pub(super) fn folder(&self) -> String {
        match self {
            Self::Round(id) => format!("round-{}", id.simple()),
            Self::Run(id) => format!("run-{id}"),
            Self::Question { node } => format!("node-{node}"),
            Self::Call(name) => format!("call-{name}"),
            Self::RestRun(id) => format!("rest-{id}"),
            Self::Activity(id) => format!("activity-{id}"),
        }
    }

    pub(super) fn in_folder(folder: &str) -> Option<Self> {
        let (kind, name) = folder.split_once('-')?;
        match kind {
            "round" => name.parse().ok().map(Self::Round),
            "run" => Some(Self::Run(name.to_owned())),
            "node" => Some(Self::Question { node: name.to_owned() }),
            "call" => Some(Self::Call(name.to_owned())),
            "rest" => Some(Self::RestRun(name.to_owned())),
            "activity" => name.parse().ok().map(Self::Activity),
            _ => None,
        }
    }
}

/// The notification with which a client cancels a call.
const CANCELLED: &str = "notifications/cancelled";

/// Returns a call's name, unique among all servers. It does not reveal the session's id.
pub(crate) fn call_name(session: &str, request: &serde_json::Value) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("onetool call of a session");
    hasher.update(crate::mcp::own_id(session).as_bytes());
    hasher.update(&[0]);
    hasher.update(request.to_string().as_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Prefix of the ids of questions in a session, where several servers share their state: an answer that reaches
/// another server names its recipient, and cannot be mistaken for the answer to another question.
const QUESTION: &str = "onetool-";
const NODE_DIGITS: usize = 12;

/// The id of a question, as the client sees it.
pub(crate) fn question_id(node: &str, number: i64) -> String {
    format!("{QUESTION}{}-{number}", short(node))
}

/// Returns the number of a question if it is from this server.
pub(crate) fn question_number(node: &str, id: &str) -> Option<i64> {
    let (of, number) = id.strip_prefix(QUESTION)?.split_once('-')?;
    (of == short(node)).then(|| number.parse().ok()).flatten()
}

fn question_node(id: &str) -> Option<&str> {
    let (node, number) = id.strip_prefix(QUESTION)?.split_once('-')?;
    let is_node = node.len() == NODE_DIGITS && node.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_node && number.parse::<i64>().is_ok()).then_some(node)
}

fn short(node: &str) -> &str {
    node.get(..NODE_DIGITS).unwrap_or(node)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn subject(body: serde_json::Value) -> Option<Subject> {
        let mut headers = HeaderMap::new();
        headers.insert(SESSION_HEADER, HeaderValue::from_static("s1.sealed"));
        Subject::of(&headers, body.to_string().as_bytes())
    }

    #[test]
    fn only_answers_to_questions_are_somebody_elses() {
        let id = Uuid::new_v4();
        let state = URL_SAFE_NO_PAD.encode([id.as_bytes().as_slice(), &[7; 32]].concat());
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "run", "arguments": {"command": "1"}, "requestState": state}});
        assert_eq!(subject(call), Some(Subject::Round(id)));
        let update = json!({"id": 1, "method": "tasks/update", "params": {"taskId": "abc", "inputResponses": {}}});
        assert_eq!(subject(update), Some(Subject::Run("abc".to_owned())));
        let node = "0123456789abcdef0123456789abcdef";
        let answer = json!({"jsonrpc": "2.0", "id": question_id(node, 3), "result": {"action": "accept"}});
        assert_eq!(subject(answer), Some(Subject::Question { node: "0123456789ab".to_owned() }));
        assert_eq!(question_number(node, &question_id(node, 3)), Some(3));
        assert_eq!(question_number("ffffffffffffffff", &question_id(node, 3)), None);
        let cancel = json!({"method": "notifications/cancelled", "params": {"requestId": 9, "reason": "x"}});
        assert_eq!(subject(cancel), Some(Subject::Call(call_name("s1", &json!(9)))));
        assert_ne!(call_name("s1", &json!(9)), call_name("s1", &json!("9")));
        for other in [
            json!({"method": "notifications/cancelled", "params": {}}),
            json!({"id": 1, "method": "tools/call", "params": {"arguments": {"command": "'requestState'"}}}),
            json!({"id": 1, "method": "tools/call", "params": {"requestState": "?"}}),
            json!({"id": 1, "method": "tasks/update", "params": {"taskId": "../x"}}),
            json!({"id": 7, "result": {"text": "onetool-0123456789ab-1"}}),
            json!({"id": "onetool-x-1", "result": {}}),
            json!([]),
        ] {
            assert_eq!(subject(other.clone()), None, "{other}");
        }
        for subject in [
            Subject::Round(id),
            Subject::Run("a-b".to_owned()),
            Subject::Question { node: "n".to_owned() },
            Subject::Call("c".to_owned()),
            Subject::RestRun("0190".to_owned()),
            Subject::Activity(7),
        ] {
            assert_eq!(Subject::in_folder(&subject.folder()), Some(subject));
        }
    }
}
