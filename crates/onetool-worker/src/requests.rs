//! Handles a running tool's requests (secrets, configuration, other tools) and its notifications (progress, log lines).

use std::sync::Arc;

use onetool_sdk::{Arguments, Progress, QualifiedName, ToolError, Value};
use serde_json::Value as Json;

use super::live::Worker;
use super::protocol;

tokio::task_local! {
    /// The packs whose functions wait for the called tool: they hold the turns that it could need.
    static WAITING: Vec<String>;
}

/// Returns the packs whose functions wait for the current task.
pub(super) fn waiting() -> Vec<String> {
    WAITING.try_with(Clone::clone).unwrap_or_default()
}

/// Answers one request of a worker.
pub(super) async fn answer(worker: Arc<Worker>, id: Json, method: String, params: Json) {
    let outcome = match method.as_str() {
        "get_secret" => secret(&worker, text(&params, "name")),
        "get_config" => {
            let value = worker.services.config(text(&params, "pack"), text(&params, "key"));
            Ok(value.map_or(Json::Null, |value| Value::from_json(value).to_wire()))
        }
        "resolve_path" => resolve_path(&worker, &params).await,
        "call_tool" => call_tool(&worker, params).await,
        _ => Err(ToolError::not_found(format!("a worker has no request '{method}'"))),
    };
    // A worker that has ended needs no answer.
    let _ = worker.write(&protocol::response(&id, outcome)).await;
}

fn text<'a>(params: &'a Json, name: &str) -> &'a str {
    params.get(name).and_then(Json::as_str).unwrap_or_default()
}

fn secret(worker: &Worker, name: &str) -> Result<Json, ToolError> {
    let listed = worker
        .file
        .metadata
        .as_ref()
        .is_some_and(|metadata| metadata.secrets.iter().any(|listed| names_secret(listed, name)));
    if !listed {
        let file = worker.file.path.display();
        return Err(ToolError::denied(format!("{file} does not name the secret '{name}'"))
            .with_hint(format!("add `[tool.onetool]` with `secrets = [\"{name}\"]` to its '# /// script' block")));
    }
    let value = worker.services.secret(name);
    if let Some(value) = &value {
        worker.remember_secret(value);
    }
    Ok(value.map_or(Json::Null, Json::String))
}

/// Whether an entry of `secrets` matches a secret: by its name, or by a prefix of its name (`DB_URL_*`). `*` alone
/// would match every secret, and therefore matches none.
fn names_secret(listed: &str, name: &str) -> bool {
    match listed.strip_suffix('*') {
        Some(start) => !start.is_empty() && !start.contains('*') && name.len() > start.len() && name.starts_with(start),
        None => listed == name,
    }
}

async fn resolve_path(worker: &Worker, params: &Json) -> Result<Json, ToolError> {
    let (services, path) = (worker.services.clone(), text(params, "path").to_owned());
    let for_writing = params.get("write").and_then(Json::as_bool).unwrap_or(true);
    let resolved = tokio::task::spawn_blocking(move || services.resolve_path(&path, for_writing)).await;
    let resolved = resolved.map_err(|error| ToolError::internal(error.to_string()))??;
    let text = resolved.to_str().ok_or_else(|| ToolError::value_error("the path is not valid Unicode"))?;
    Ok(Json::from(text))
}

async fn call_tool(worker: &Worker, mut params: Json) -> Result<Json, ToolError> {
    let id = params.get("call").and_then(Json::as_u64).unwrap_or_default();
    let ctx =
        worker.context_of(id).ok_or_else(|| ToolError::unavailable("call_tool works only while a call is served"))?;
    let tools = ctx.tools.clone().ok_or_else(|| ToolError::unavailable("no other tools can be called from here"))?;
    let name: QualifiedName = text(&params, "name").parse()?;
    let named = match params.get_mut("named").map(Json::take) {
        Some(Json::Object(named)) => named,
        _ => serde_json::Map::new(),
    };
    let named: Result<Vec<(String, Value)>, ToolError> = named
        .into_iter()
        .map(|(name, value)| match Value::from_wire(value) {
            Ok(value) => Ok((name, value)),
            Err(error) => Err(ToolError::arguments(error.to_string())),
        })
        .collect();
    let nested = ctx.nested();
    let call = WAITING.scope(worker.waiting_for(id), tools.call_tool(&name, Arguments::named(named?), &nested));
    tokio::select! {
        result = call => result.map(|value| value.to_wire()),
        () = ctx.cancel.cancelled() => Err(ToolError::new(onetool_sdk::ErrorKind::Cancelled, format!("{name} was cancelled"))),
    }
}

/// Maximum number of characters of a log line.
const MAX_LOGGED: usize = 8_000;

/// Clips redacted text: redacting clipped text instead could leave half a secret.
fn clipped(text: String) -> String {
    match text.char_indices().nth(MAX_LOGGED) {
        Some((end, _)) => format!("{}… [{} bytes]", &text[..end], text.len()),
        None => text,
    }
}

/// Handles a notification.
pub(super) fn note(worker: &Worker, method: &str, params: &Json) {
    match method {
        "progress" => {
            let ctx = params.get("call").and_then(Json::as_u64).and_then(|id| worker.context_of(id));
            if let (Some(ctx), Some(done)) = (ctx, params.get("done").and_then(Json::as_f64)) {
                ctx.progress.report(Progress {
                    done,
                    total: params.get("total").and_then(Json::as_f64),
                    message: params.get("message").and_then(Json::as_str).map(|text| worker.redact(text)),
                });
            }
        }
        "log" => {
            let fields = params.get("fields").map(Json::to_string).unwrap_or_default();
            let bytes = text(params, "message").len().min(MAX_LOGGED) + fields.len().min(MAX_LOGGED);
            if !worker.may_log(bytes) {
                return;
            }
            let (pack, message) = (worker.pack(), clipped(worker.redact(text(params, "message"))));
            let fields = clipped(worker.redact(&fields));
            match text(params, "level").to_ascii_lowercase().as_str() {
                "debug" => tracing::debug!(pack, fields, "{message}"),
                "warning" | "warn" => tracing::warn!(pack, fields, "{message}"),
                "error" | "critical" => tracing::error!(pack, fields, "{message}"),
                _ => tracing::info!(pack, fields, "{message}"),
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::names_secret;

    #[test]
    fn a_pattern_of_secrets_needs_a_beginning() {
        for (listed, name, expected) in [
            ("DB_URL", "DB_URL", true),
            ("DB_URL", "DB_URL_CRM", false),
            ("DB_URL_*", "DB_URL_CRM", true),
            ("DB_URL_*", "DB_URL_", false),
            ("DB_URL_*", "OTHER_DB_URL_CRM", false),
            ("*", "DB_URL", false),
            ("**", "*DB_URL", false),
        ] {
            assert_eq!(names_secret(listed, name), expected, "{listed} {name}");
        }
    }
}
