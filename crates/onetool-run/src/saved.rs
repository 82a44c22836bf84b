//! Code that runs saved with `ot.save`: the pack `saved`, one function per name, and `$name`.
//!
//! Saved code is data of its own: it is stored beside results and plans, never in a file that the user wrote, and it
//! grants nothing. Its calls take the usual call path when it runs, under the policy of that moment, and it never
//! overrides a name that the configuration uses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use onetool_sdk::{
    CallContext, Origin, Pack, PackDocs, ToolCall, ToolError, ToolSource, ToolSpec, Value, is_python_identifier,
};
use onetool_state::interface::{Change, Collection, Cursor, Documents, Effort, Expect, Key};
use onetool_state::{StateError, wait};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use crate::ot::Toolbox as ToolboxView;
use crate::{Catalog, Snippet, SnippetParameter};

/// The pack of saved code.
pub const PACK: &str = "saved";

/// Maximum number of saved pieces; further ones are refused.
const MAX_SAVED: usize = 200;
/// Maximum size of saved code, in bytes.
const MAX_CODE: usize = 64 << 10;
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 500;
const MAX_PARAMETERS: usize = 20;
/// How often changes by other processes are looked for, where looking is cheap.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A saved piece of code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedEntry {
    pub name: String,
    pub description: String,
    pub code: String,
    /// Parameters with their defaults.
    #[serde(default)]
    pub parameters: IndexMap<String, Json>,
    pub at: DateTime<Utc>,
}

/// Whether to replace code of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    No,
    Yes,
}

/// All saved code, in the shared state.
pub struct SavedCode {
    documents: Option<Arc<dyn Documents>>,
    entries: RwLock<Arc<IndexMap<String, Arc<SavedEntry>>>>,
    looked: Mutex<Looked>,
    generation: AtomicU64,
}

struct Looked {
    cursor: Cursor,
    at: Option<Instant>,
}

impl SavedCode {
    pub fn new(documents: Arc<dyn Documents>) -> Self {
        Self { documents: Some(documents), ..Self::nowhere() }
    }

    /// Stores nothing.
    pub fn nowhere() -> Self {
        Self {
            documents: None,
            entries: RwLock::default(),
            looked: Mutex::new(Looked { cursor: Cursor::START, at: None }),
            generation: AtomicU64::new(0),
        }
    }

    /// All saved code, by name.
    pub fn all(&self) -> Arc<IndexMap<String, Arc<SavedEntry>>> {
        self.refresh();
        self.entries.read().clone()
    }

    /// Saves code. Blocks.
    pub fn put(&self, entry: SavedEntry, replace: Replace) -> Result<(), ToolError> {
        let documents = self.documents.as_ref().ok_or_else(|| ToolError::unavailable("nothing is kept here"))?;
        check(&entry)?;
        let known = self.all();
        if !known.contains_key(&entry.name) && known.len() >= MAX_SAVED {
            return Err(ToolError::value_error(format!("{MAX_SAVED} pieces of code are saved already"))
                .with_hint("`onetool saved remove NAME` removes one"));
        }
        let content = serde_json::to_vec_pretty(&entry).map_err(|error| ToolError::internal(error.to_string()))?;
        let expect = if replace == Replace::Yes { Expect::Anything } else { Expect::Absent };
        match wait(documents.put(Collection::SAVED, &key(&entry.name)?, &content, &expect.into())) {
            Ok(_) => {
                self.look();
                Ok(())
            }
            Err(StateError::Conflict(_)) => Err(ToolError::value_error(format!("'{}' is saved already", entry.name))
                .with_hint("choose another name, or pass replace=True")),
            Err(error) => Err(failure(&error)),
        }
    }

    /// Removes code. Returns `false` if there is none with that name. Blocks.
    pub fn remove(&self, name: &str) -> Result<bool, ToolError> {
        let Some(documents) = self.documents.as_ref().filter(|_| self.all().contains_key(name)) else {
            return Ok(false);
        };
        wait(documents.delete(Collection::SAVED, &key(name)?, &Expect::Anything.into()))
            .map_err(|error| failure(&error))?;
        self.look();
        Ok(true)
    }

    /// Looks for changes by other processes, unless that was just done.
    fn refresh(&self) {
        let Some(documents) = &self.documents else { return };
        let pause = documents.poll_every().unwrap_or(LOOK_AGAIN);
        let is_due = self.looked.try_lock().is_some_and(|looked| looked.at.is_none_or(|at| at.elapsed() >= pause));
        if is_due {
            self.look();
        }
    }

    fn look(&self) {
        let Some(documents) = &self.documents else { return };
        let mut looked = self.looked.lock();
        let effort = if looked.at.is_none() { Effort::Thorough } else { Effort::Usual };
        looked.at = Some(Instant::now());
        let changes = match wait(documents.changes(Collection::SAVED, looked.cursor, effort)) {
            Ok(changes) => changes,
            Err(error) => {
                tracing::debug!(%error, "saved code could not be read");
                return;
            }
        };
        looked.cursor = changes.cursor;
        if !changes.is_whole && changes.changes.is_empty() {
            return;
        }
        let old = self.entries.read().clone();
        let mut entries = if changes.is_whole { IndexMap::new() } else { (*old).clone() };
        for change in changes.changes {
            match change {
                Change::Put(document) => match serde_json::from_slice::<SavedEntry>(&document.content) {
                    Ok(entry) if entry.name == document.key.as_str() && check(&entry).is_ok() => {
                        entries.insert(entry.name.clone(), Arc::new(entry));
                    }
                    _ => tracing::warn!(name = document.key.as_str(), "saved code is ignored: it cannot be read"),
                },
                Change::Gone(key) => {
                    entries.shift_remove(key.as_str());
                }
                Change::Unreadable { place, reason, .. } => {
                    tracing::warn!(place, reason, "saved code is ignored: it cannot be read");
                }
            }
        }
        entries.sort_keys();
        if entries != *old {
            *self.entries.write() = Arc::new(entries);
            self.generation.fetch_add(1, Ordering::Release);
        }
    }
}

fn key(name: &str) -> Result<Key, ToolError> {
    name.parse().map_err(|error: StateError| failure(&error))
}

fn failure(error: &StateError) -> ToolError {
    ToolError::unavailable(format!("the saved code can't be reached: {error}"))
}

/// Validates an entry, which may have been written by anyone with access to the storage.
fn check(entry: &SavedEntry) -> Result<(), ToolError> {
    let refused = |text: String| Err(ToolError::value_error(text));
    let is_name = |name: &str| name.is_ascii() && is_python_identifier(name) && !name.starts_with('_');
    if !is_name(&entry.name) || entry.name.len() > MAX_NAME {
        return refused(format!(
            "'{}' is not a name for saved code: letters, digits and _, not first a digit or _, at most {MAX_NAME}",
            entry.name.chars().take(MAX_NAME).collect::<String>()
        ));
    }
    let description = entry.description.trim();
    if description.is_empty() || description.chars().count() > MAX_DESCRIPTION {
        return refused(format!(
            "the description must say what the code does, in at most {MAX_DESCRIPTION} characters"
        ));
    }
    let hides = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if description.contains(hides) {
        return refused("the description contains characters that cannot be seen".to_owned());
    }
    if entry.code.trim().is_empty() || entry.code.len() > MAX_CODE {
        return refused(format!("the code has {} bytes; at most {MAX_CODE} are kept", entry.code.len()));
    }
    if entry.parameters.len() > MAX_PARAMETERS {
        return refused(format!("{} parameters are too many; at most {MAX_PARAMETERS}", entry.parameters.len()));
    }
    match entry.parameters.keys().find(|name| !is_name(name)) {
        Some(name) => refused(format!("'{name}' is not a name for a parameter")),
        None => Ok(()),
    }
}

/// Saved code as a tool source.
pub struct SavedSource {
    saved: Arc<SavedCode>,
    toolbox: Weak<dyn ToolboxView>,
}

impl SavedSource {
    pub fn new(saved: Arc<SavedCode>, toolbox: Weak<dyn ToolboxView>) -> Self {
        Self { saved, toolbox }
    }
}

#[async_trait]
impl ToolSource for SavedSource {
    fn packs(&self) -> Vec<Arc<Pack>> {
        let entries = self.saved.all();
        if entries.is_empty() {
            return Vec::new();
        }
        let tools = entries.iter().map(|(name, entry)| (name.clone(), Arc::new(spec(entry)))).collect();
        vec![Arc::new(Pack {
            name: PACK.to_owned(),
            description: "Code that earlier runs saved with ot.save; $name runs it too".to_owned(),
            origin: Origin::Native,
            tools,
            note: None,
            docs: PackDocs::Off,
        })]
    }

    fn generation(&self) -> u64 {
        self.saved.refresh();
        self.saved.generation.load(Ordering::Acquire)
    }

    async fn call(&self, call: ToolCall, ctx: &CallContext) -> Result<Value, ToolError> {
        let name = &call.tool.name;
        let entry = self.saved.all().get(name).cloned();
        let entry = entry.ok_or_else(|| ToolError::not_found(format!("the code '{name}' is not saved any more")))?;
        let toolbox = self.toolbox.upgrade().ok_or_else(|| ToolError::unavailable("the toolbox is shutting down"))?;
        let given: Map<String, Json> =
            call.arguments.named.iter().map(|(name, value)| (name.clone(), value.to_json())).collect();
        toolbox.evaluate(&with_values(&entry, &given), &ctx.nested()).await
    }
}

/// Prepends the values of the parameters to the code, on one line.
fn with_values(entry: &SavedEntry, given: &Map<String, Json>) -> String {
    if entry.parameters.is_empty() {
        return entry.code.clone();
    }
    let assigned = entry.parameters.iter().map(|(name, default)| {
        let value = given.get(name).unwrap_or(default);
        format!("{name} = {}", Value::from_json(value.clone()).repr())
    });
    format!("{}\n{}", assigned.collect::<Vec<_>>().join("; "), entry.code)
}

fn spec(entry: &SavedEntry) -> ToolSpec {
    let properties: Map<String, Json> = entry
        .parameters
        .iter()
        .map(|(name, default)| {
            let mut schema = match default {
                Json::String(_) => json!({"type": "string"}),
                Json::Bool(_) => json!({"type": "boolean"}),
                Json::Number(number) if number.is_f64() => json!({"type": "number"}),
                Json::Number(_) => json!({"type": "integer"}),
                Json::Array(_) => json!({"type": "array"}),
                Json::Object(_) => json!({"type": "object"}),
                Json::Null => json!({}),
            };
            if let Some(schema) = schema.as_object_mut() {
                schema.insert("default".to_owned(), default.clone());
            }
            (name.clone(), schema)
        })
        .collect();
    let schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    ToolSpec::from_schema(&entry.name, &entry.description, schema)
}

/// The configured snippets, and one for each saved piece of code whose name is not used by them.
pub(crate) fn with_saved(snippets: &IndexMap<String, Snippet>, catalog: &Catalog) -> IndexMap<String, Snippet> {
    let mut all: IndexMap<String, Snippet> = snippets
        .iter()
        .filter(|(_, snippet)| !snippet.is_saved)
        .map(|(name, one)| (name.clone(), one.clone()))
        .collect();
    // A user's pack may have that name.
    let Some(pack) = catalog.pack(PACK).filter(|entry| entry.pack.docs == PackDocs::Off) else { return all };
    for (name, tool) in &pack.pack.tools {
        if all.contains_key(name) {
            continue;
        }
        let properties = tool.input_schema.get("properties").and_then(Json::as_object).cloned().unwrap_or_default();
        let parameters: IndexMap<String, SnippetParameter> = properties
            .into_iter()
            .map(|(name, schema)| {
                let default = schema.get("default").cloned();
                (name, SnippetParameter { required: false, kind: None, default, description: None })
            })
            .collect();
        let arguments: Vec<String> = parameters
            .iter()
            .map(|(name, parameter)| {
                let filter = if matches!(parameter.default, Some(Json::String(_))) { "literal" } else { "data" };
                format!("{name}={{{{ {name} | {filter} }}}}")
            })
            .collect();
        let body = format!("{PACK}.{name}({})", arguments.join(", "));
        all.insert(name.clone(), Snippet { description: tool.summary().to_owned(), parameters, body, is_saved: true });
    }
    all
}
