//! Calls the tools as every caller does, with JSON in and out, on a real folder.

use std::path::Path;

use onetool_sdk::{Tool, ToolContext, ToolError};
use serde_json::{Value as Json, json};

use super::{FileSettings, pack};

mod changing;
mod laws;
mod raw;
mod reading;
mod searching;
mod shape;
mod writing;

/// A project folder and its tools.
pub(super) struct Desk {
    pub(super) folder: tempfile::TempDir,
    tools: Vec<Tool>,
}

impl Desk {
    pub(super) fn new() -> Self {
        Self::with(|_| ())
    }

    pub(super) fn with(change: impl FnOnce(&mut FileSettings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = FileSettings::for_project(folder.path());
        change(&mut settings);
        let tools = pack(settings).tools;
        Self { folder, tools }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self
    }

    pub(super) fn bytes(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.path().join(path)).unwrap()
    }

    pub(super) fn text(&self, path: &str) -> String {
        String::from_utf8(self.bytes(path)).unwrap()
    }

    pub(super) async fn try_call(&self, name: &str, arguments: Json) -> Result<Json, ToolError> {
        self.call_in(name, arguments, ToolContext::default()).await
    }

    pub(super) async fn call_in(&self, name: &str, arguments: Json, ctx: ToolContext) -> Result<Json, ToolError> {
        let tool = self.tools.iter().find(|tool| tool.name() == name).unwrap();
        let mut arguments = arguments;
        // Most tests check the detailed view; the others disable it.
        let detailed = match name {
            "read" => Some("line_numbers"),
            "list" | "glob" => Some("details"),
            _ => None,
        };
        if let (Some(key), Some(given)) = (detailed, arguments.as_object_mut()) {
            given.entry(key).or_insert(Json::Bool(true));
        }
        tool.execute(arguments, ctx).await.map(|result| result.into_value().to_json())
    }

    pub(super) async fn call(&self, name: &str, arguments: Json) -> Json {
        self.try_call(name, arguments).await.unwrap_or_else(|error| panic!("{name}: {}", error.text()))
    }

    /// The exception's type and the text of a call that must fail.
    pub(super) async fn fail(&self, name: &str, arguments: Json) -> (String, String) {
        match self.try_call(name, arguments).await {
            Ok(value) => panic!("{name} should have failed: {value}"),
            Err(error) => (error.exception().to_owned(), error.text()),
        }
    }
}

pub(super) fn path(path: &str) -> Json {
    json!({ "path": path })
}
