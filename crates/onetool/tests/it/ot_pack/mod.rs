//! The `ot` pack, scenario by scenario, through the real server. One file per requirement or for a few small ones;
//! every test is named after its scenario.
//!
//! Read-only tests share one server in a copy of `project/`, which has the packs, snippets, aliases and the server of
//! the specification's examples. Tests that change something have their own server.

mod aliases;
mod format_and_logging;
mod health_and_configuration;
mod help;
mod notify_and_reload;
mod packs;
mod report_page;
mod result;
mod save;
mod snippets;
mod stats;
mod tools;
mod what_a_model_sees;
mod wrong_input;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value as Json;
use tokio::runtime::Runtime;

use crate::client::{Answer, Client, Project};

/// A server in a copy of `project/`, for tests of any thread.
pub struct House {
    pub project: Project,
    client: Option<Client>,
    runtime: Runtime,
}

static SHARED: Mutex<Weak<House>> = Mutex::new(Weak::new());

/// The house shared by all tests that currently run. The last one stops it.
pub fn house() -> Arc<House> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(house) = shared.upgrade() {
        return house;
    }
    let house = Arc::new(House::of(example_project()));
    house.until("ot.health()", |text| text.contains("github: connected"));
    *shared = Arc::downgrade(&house);
    house
}

pub fn example_project() -> Project {
    Project::copy_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/ot_pack/project"))
}

impl House {
    /// A separate server.
    pub fn of(project: Project) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(project.serve());
        Self { project, client: Some(client), runtime }
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("it is there until the end")
    }

    pub fn run(&self, command: &str) -> Answer {
        self.runtime.block_on(self.client().run(command))
    }

    /// The text of a run that must succeed.
    pub fn ok(&self, command: &str) -> String {
        self.runtime.block_on(self.client().ok(command))
    }

    /// The text of a run that must fail.
    pub fn err(&self, command: &str) -> String {
        self.runtime.block_on(self.client().err(command))
    }

    /// Parses a reply as YAML.
    pub fn yaml(&self, command: &str) -> Json {
        let text = self.ok(command);
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{command}: {error}\n{text:.2000}"))
    }

    /// Runs a command until its answer is as expected.
    pub fn until(&self, command: &str, expected: impl Fn(&str) -> bool) -> String {
        let patience = std::time::Instant::now() + crate::client::PATIENCE;
        loop {
            let answer = self.run(command).text;
            if expected(&answer) {
                return answer;
            }
            assert!(std::time::Instant::now() < patience, "never as expected: {command}: {answer}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// The log lines of a span, once there are as many as expected.
    pub fn spans(&self, name: &str, count: usize) -> Vec<Json> {
        let path = self.project.path().join(".onetool/logs/onetool.log");
        let read = || -> Vec<Json> {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
            lines.filter(|line| line["span"] == name).collect()
        };
        self.runtime.block_on(crate::client::eventually(name, || read().len() >= count));
        read()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            let _ = self.runtime.block_on(client.service.cancel());
        }
    }
}

/// The values of one key in a list of objects.
pub fn column<'a>(list: &'a Json, key: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap()).collect()
}

/// A list of texts.
pub fn texts(list: &Json) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// The keys of an object.
pub fn keys(object: &Json) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}
