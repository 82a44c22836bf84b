//! Asks the person at the terminal like the user of a client: for permission for a call, or for input to a server.
//!
//! Only if standard input and standard error are a terminal; otherwise nobody can be asked, and `ask` refuses.

use std::io::IsTerminal as _;
use std::sync::Arc;

use async_trait::async_trait;
use onetool_sdk::{ClientBridge, ErrorKind, ToolError};
use serde_json::{Map, Value as Json, json};

/// Maximum number of fields of a form.
const MAX_FIELDS: usize = 20;

/// Maximum number of characters of a question.
const MAX_TEXT: usize = 4000;

/// The client bridge for the terminal, if somebody can be asked.
pub fn client() -> Option<Arc<dyn ClientBridge>> {
    let is_there = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    is_there.then(|| Arc::new(Terminal { one_at_a_time: Arc::default() }) as Arc<dyn ClientBridge>)
}

struct Terminal {
    one_at_a_time: Arc<tokio::sync::Mutex<()>>,
}

#[async_trait]
impl ClientBridge for Terminal {
    async fn elicit(&self, params: Json) -> Result<Json, ToolError> {
        let turn = self.one_at_a_time.clone().lock_owned().await;
        let asked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            ask(&params, &mut std::io::stdin().lock(), &mut std::io::stderr())
        });
        match asked.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(ToolError::unavailable(format!("the terminal cannot be read: {error}"))),
            Err(_) => Err(ToolError::internal("the question was lost")),
        }
    }

    async fn sample(&self, _: Json) -> Result<Json, ToolError> {
        Err(ToolError::new(ErrorKind::Unavailable, "there is no model at a terminal")
            .with_hint("tools.llm in the configuration names one"))
    }
}

/// Asks one question, field by field, and returns the answer in MCP's format.
fn ask(params: &Json, input: &mut impl std::io::BufRead, output: &mut impl std::io::Write) -> std::io::Result<Json> {
    let message = params.get("message").and_then(Json::as_str).unwrap_or_default();
    let declined = || json!({"action": "decline"});
    if let Some(url) = params.get("url").and_then(Json::as_str) {
        writeln!(output, "{}\n  {}", printable(message), printable(url))?;
        let is_done = yes(input, output, "Open this address, then answer: continue?")?;
        return Ok(if is_done { json!({"action": "accept"}) } else { declined() });
    }
    let empty = Map::new();
    let fields = params.pointer("/requestedSchema/properties").and_then(Json::as_object).unwrap_or(&empty);
    if fields.len() > MAX_FIELDS {
        writeln!(output, "{}\n(declined: the form has {} fields)", printable(message), fields.len())?;
        return Ok(declined());
    }
    // A form with a single yes or no is asked directly.
    if fields.len() == 1
        && let Some((name, field)) = fields.iter().next()
        && field.get("type").and_then(Json::as_str) == Some("boolean")
    {
        let is_yes = yes(input, output, &printable(message))?;
        return Ok(json!({"action": if is_yes { "accept" } else { "decline" }, "content": {name: is_yes}}));
    }
    writeln!(output, "{}", printable(message))?;
    if fields.is_empty() {
        let is_yes = yes(input, output, "Continue?")?;
        return Ok(if is_yes { json!({"action": "accept", "content": {}}) } else { declined() });
    }
    let required: Vec<&str> = params
        .pointer("/requestedSchema/required")
        .and_then(Json::as_array)
        .map(|names| names.iter().filter_map(Json::as_str).collect())
        .unwrap_or_default();
    let mut content = Map::new();
    for (name, field) in fields {
        let label = field.get("title").and_then(Json::as_str).unwrap_or(name);
        let choices: Vec<&str> =
            field.get("enum").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect();
        let hint = if choices.is_empty() { String::new() } else { format!(" ({})", choices.join(", ")) };
        write!(output, "{}{}: ", printable(label), printable(&hint))?;
        output.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(json!({"action": "cancel"}));
        }
        match value(field, line.trim()) {
            Some(value) => {
                content.insert(name.clone(), value);
            }
            None if required.contains(&name.as_str()) => return Ok(declined()),
            None => {}
        }
    }
    Ok(json!({"action": "accept", "content": content}))
}

fn value(field: &Json, text: &str) -> Option<Json> {
    if text.is_empty() {
        return field.get("default").cloned();
    }
    match field.get("type").and_then(Json::as_str) {
        Some("integer" | "number") => serde_json::from_str::<Json>(text).ok().filter(Json::is_number),
        Some("boolean") => Some(Json::Bool(is_yes(text))),
        _ => Some(text.into()),
    }
}

/// Anything but a clear yes counts as no.
fn yes(input: &mut impl std::io::BufRead, output: &mut impl std::io::Write, question: &str) -> std::io::Result<bool> {
    write!(output, "{question} [y/N] ")?;
    output.flush()?;
    let mut line = String::new();
    let read = input.read_line(&mut line)?;
    if read == 0 {
        writeln!(output)?;
    }
    Ok(is_yes(line.trim()))
}

fn is_yes(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "y" | "yes" | "true")
}

/// Removes characters from untrusted text that would control the terminal or disguise the text.
fn printable(text: &str) -> String {
    let hidden = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().take(MAX_TEXT).map(|c| if hidden(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(params: Json, typed: &str) -> (Json, String) {
        let mut shown = Vec::new();
        let answer = ask(&params, &mut typed.as_bytes(), &mut shown).unwrap();
        (answer, String::from_utf8(shown).unwrap())
    }

    #[test]
    fn only_a_clear_yes_allows() {
        let question = json!({"message": "Allow x.y(a='\u{1b}[2J')?",
            "requestedSchema": {"properties": {"allow": {"type": "boolean"}}}});
        for (typed, expected) in
            [("y\n", true), ("YES\n", true), ("\n", false), ("", false), ("no\n", false), ("yy\n", false)]
        {
            let (answer, shown) = answer(question.clone(), typed);
            assert_eq!(answer["content"]["allow"], expected, "{typed:?}");
            assert!(shown.starts_with("Allow x.y(a=' [2J')? [y/N] "), "{shown:?}");
        }
    }

    #[test]
    fn forms_are_asked_field_by_field() {
        let form = json!({"message": "Who?", "requestedSchema": {"required": ["name"], "properties": {
            "name": {"type": "string", "title": "Name"}, "age": {"type": "integer"}, "size": {"enum": ["s", "l"], "default": "s"}}}});
        let (full, shown) = answer(form.clone(), "Ada\n36\n\n");
        assert_eq!(full, json!({"action": "accept", "content": {"name": "Ada", "age": 36, "size": "s"}}));
        assert!(shown.contains("Name: ") && shown.contains("size (s, l): "), "{shown}");
        assert_eq!(answer(form.clone(), "\n\n\n").0["action"], "decline");
        assert_eq!(answer(form, "Ada\n").0["action"], "cancel");
    }
}
