//! Turns the command of a run into code: the fence, the snippet, parsing, and what the configuration blocks.

use onetool_sandbox::Engine;

use crate::code::{self, PreparedCode};
use crate::gate::Verdict;
use crate::settings::RunSettings;
use crate::toolbox::Shared;
use crate::{account, fence_processor, snippets};

pub(super) fn is_pack(shared: &Shared, name: &str) -> bool {
    shared.state.catalog.pack(name).is_some() || shared.state.aliases.contains_key(name)
}

/// Prepares a command; the error is the text for the client. `session` holds the names bound in its session.
pub(super) fn prepare(
    command: &str,
    settings: &RunSettings,
    shared: &Shared,
    session: Option<&[String]>,
) -> Result<PreparedCode, String> {
    if command.len() > settings.limits.max_source {
        return Err(format!(
            "ValueError: the command has {} bytes; at most {} are allowed\nhint: pass data through a tool (file.read, ot.result) instead of writing it into the code",
            command.len(),
            settings.limits.max_source
        ));
    }
    let stripped = fence_processor::strip(command).map_err(|error| {
        let kind = if error == fence_processor::FenceError::LegacyPrefix { "SyntaxError" } else { "ValueError" };
        format!("{kind}: {error}\nhint: send Python code, e.g. ot.help()")
    })?;
    let expanded;
    let source = if snippets::is_snippet(stripped) {
        expanded =
            snippets::expand(stripped, &shared.state.snippets).map_err(|error| format!("ValueError: {error}"))?;
        fence_processor::strip(&expanded)
            .map_err(|error| format!("ValueError: the snippet expands to nothing: {error}"))?
    } else {
        stripped
    };
    // A name that the session has bound is no longer a pack.
    let is_bound = |name: &str| session.is_some_and(|names| names.iter().any(|bound| bound == name));
    let is_pack = |name: &str| is_pack(shared, name) && !is_bound(name);
    let surroundings = code::Surroundings {
        is_pack: &is_pack,
        engine: if session.is_some() { Engine::CPython } else { settings.engine },
        collect_called: !settings.gate.is_open(),
        keeps_names: session.is_some(),
    };
    let prepared = code::prepare(source, surroundings)
        .or_else(|problem| {
            // Prose around a single code block: the block is the code.
            let block = fence_processor::only_block(source).ok_or(problem.clone())?;
            code::prepare(block, surroundings).map_err(|_| problem)
        })
        .map_err(|problem| account::syntax(&problem))?;
    for (name, line) in &prepared.called {
        match settings.gate.verdict(name) {
            Verdict::Pass => {}
            Verdict::Warn => tracing::warn!(span = "run", call = name, line, "a call that the configuration warns of"),
            Verdict::Block => {
                return Err(format!(
                    "PermissionError: '{name}' is blocked by the configuration (line {line})\nhint: security.blocked and security.allow decide"
                ));
            }
        }
    }
    Ok(prepared)
}
