//! Decides which session a run belongs to, and explains names that runs do not share.
//!
//! The code names its session (`__session__ = "name"`), or the client does. Sessions themselves live in the sandbox.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use onetool_sandbox::{Begun, Engine, Failure, SessionKey, Sessions};
use parking_lot::Mutex;

use crate::code::{Facts, SESSION, SessionRequest};

/// Maximum length of a session's name, in characters.
const MAX_NAME: usize = 64;
/// Maximum number of clients whose names are remembered, and of names of each.
const MAX_OWNERS: usize = 256;
const MAX_NAMES: usize = 300;

/// The session of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionPlan {
    pub(crate) key: SessionKey,
    /// Whether it ends with the run.
    pub(crate) ends: bool,
}

/// How a run uses sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    Without,
    In(SessionPlan),
    /// Runs outside a session, and ends the session that was used last.
    EndLast,
}

/// Decides where code runs. `given` is the session that the client names; the error is the text for the client.
pub(crate) fn plan(facts: &Facts, given: Option<&str>, owner: &Arc<str>, engine: Engine) -> Result<Plan, String> {
    let (name, ends) = match (&facts.session, given) {
        (SessionRequest::Unclear, _) => {
            return Err(format!(
                "ValueError: {SESSION} must be a string literal, set once at the top level, because it decides where the code runs\nhint: {SESSION} = \"name\"; ot.sessions() lists those that are open"
            ));
        }
        (SessionRequest::None, None) => return Ok(Plan::Without),
        (SessionRequest::End, None) => return Ok(Plan::EndLast),
        (SessionRequest::Named { name, ends }, None) => (name.as_str(), *ends),
        (SessionRequest::None, Some(given)) => (given, false),
        (SessionRequest::End, Some(given)) => (given, true),
        (SessionRequest::Named { name, ends }, Some(given)) if name == given => (given, *ends),
        (SessionRequest::Named { name, .. }, Some(given)) => {
            return Err(format!(
                "ValueError: the code names the session '{name}', and it was sent for the session '{given}'\nhint: name one of them"
            ));
        }
    };
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(format!(
            "ValueError: {name:?} is not a name of a session: it takes 1 to {MAX_NAME} characters, none of them a control character"
        ));
    }
    if engine == Engine::Monty {
        return Err(format!(
            "RuntimeError: the session '{name}' needs full Python, and the configuration allows only Monty\nhint: set run.engine: auto"
        ));
    }
    Ok(Plan::In(SessionPlan { key: SessionKey { owner: Arc::clone(owner), name: name.to_owned() }, ends }))
}

/// The note about the session that precedes the reply.
pub(crate) fn begun_note(key: &SessionKey, begun: &Begun) -> Option<String> {
    match begun {
        Begun::Again(end) => {
            Some(format!("[session '{}' is new: the one before ended, because {end}; its names are gone]", key.name))
        }
        Begun::New | Begun::Continued => None,
    }
}

/// The note about a session that ended with its run.
pub(crate) fn ended_note(key: &SessionKey) -> String {
    format!("session '{}' ended with this run: its names are gone", key.name)
}

/// Names that runs without a session recently bound, by client.
#[derive(Debug, Default)]
pub(crate) struct RecentNames {
    owners: Mutex<Owners>,
}

#[derive(Debug, Default)]
struct Owners {
    names: HashMap<Arc<str>, VecDeque<String>>,
    /// In order of their first run; the oldest is removed first.
    order: VecDeque<Arc<str>>,
}

impl RecentNames {
    /// Remembers the names that a run binds.
    pub(crate) fn note(&self, owner: &Arc<str>, facts: &Facts) {
        if facts.top_level.is_empty() {
            return;
        }
        let mut owners = self.owners.lock();
        if !owners.names.contains_key(owner) {
            owners.order.push_back(Arc::clone(owner));
            if owners.order.len() > MAX_OWNERS
                && let Some(oldest) = owners.order.pop_front()
            {
                owners.names.remove(&oldest);
            }
        }
        let names = owners.names.entry(Arc::clone(owner)).or_default();
        for name in facts.top_level.iter().take(MAX_NAMES) {
            if !names.contains(name) {
                names.push_back(name.clone());
            }
        }
        let surplus = names.len().saturating_sub(MAX_NAMES);
        names.drain(..surplus);
    }

    fn contains(&self, owner: &str, name: &str) -> bool {
        self.owners.lock().names.get(owner).is_some_and(|names| names.iter().any(|known| known == name))
    }
}

/// Explains where an undefined name was defined, if another run of the same client bound it.
pub(crate) fn lost_name(
    failure: &Failure,
    owner: &str,
    own: Option<&SessionKey>,
    sessions: &Sessions,
    recent: &RecentNames,
) -> Option<String> {
    let Failure::Raised { exception, message, .. } = failure else { return None };
    if exception != "NameError" {
        return None;
    }
    let name = message.strip_prefix("name '")?.split('\'').next()?;
    let holder = sessions.of(owner).into_iter().find(|session| {
        own.is_none_or(|own| own.name != session.name) && session.names.iter().any(|known| known == name)
    });
    if let Some(session) = holder {
        return Some(format!(
            "'{name}' is defined in the session '{0}': begin the code with {SESSION} = \"{0}\"",
            session.name
        ));
    }
    recent.contains(owner, name).then(|| {
        format!(
            "an earlier run defined '{name}', and runs do not share names; to keep them, begin each run with {SESSION} = \"name\", or do it all in one run"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(code: &str) -> Facts {
        Facts::of(ruff_python_parser::parse_module(code).unwrap().syntax(), code)
    }

    fn planned(code: &str, given: Option<&str>) -> Result<Plan, String> {
        plan(&facts(code), given, &Arc::from("me"), Engine::Auto)
    }

    #[test]
    fn code_and_sender_agree_on_the_session() {
        let is_in = |plan: Result<Plan, String>, name: &str, ends: bool| matches!(plan, Ok(Plan::In(found)) if found.key.name == name && found.ends == ends);
        assert!(is_in(planned("__session__ = 'a'", None), "a", false));
        assert!(is_in(planned("1", Some("a")), "a", false));
        assert!(is_in(planned("__session__ = None", Some("a")), "a", true));
        assert_eq!(planned("__session__ = None", None), Ok(Plan::EndLast));
        assert_eq!(planned("1", None), Ok(Plan::Without));
        for (code, given) in [("__session__ = 'a'", Some("b")), ("__session__ = x", None), ("__session__ = ''", None)] {
            assert!(planned(code, given).unwrap_err().starts_with("ValueError:"), "{code}");
        }
        assert!(plan(&facts("__session__ = 'a'"), None, &Arc::from(""), Engine::Monty).is_err());
    }

    #[test]
    fn names_are_remembered_by_client_and_up_to_a_limit() {
        let recent = RecentNames::default();
        let (me, other): (Arc<str>, Arc<str>) = (Arc::from("me"), Arc::from("other"));
        recent.note(&me, &facts("total = 1"));
        assert!(recent.contains(&me, "total") && !recent.contains(&other, "total"));
        let many: String = (0..MAX_NAMES).map(|at| format!("n{at} = 1\n")).collect();
        recent.note(&me, &facts(&many));
        assert!(!recent.contains(&me, "total") && recent.contains(&me, "n0"));
        for at in 0..=MAX_OWNERS {
            recent.note(&Arc::from(at.to_string()), &facts("x = 1"));
        }
        assert!(!recent.contains(&me, "n0"));
        assert_eq!(recent.owners.lock().names.len(), MAX_OWNERS);
    }
}
