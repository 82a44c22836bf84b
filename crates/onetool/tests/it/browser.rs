//! A real browser for web pages: headless Chromium, controlled through its own protocol over a pipe.
//!
//! `scripts/test.sh` installs Chromium if it can. Otherwise it says so and sets `ONETOOL_SKIP_BROWSER_TESTS`; without
//! that variable, a missing browser is a failure.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::client::PATIENCE;

/// Names under which Chromium may be installed.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// The browser uses descriptors 3 and 4; these are connected to its standard input and output.
const PIPES: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null";

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// Events of the page since it was last opened.
    events: Vec<Json>,
    _profile: TempDir,
}

/// The reader's preferred colour scheme.
#[derive(Debug, Clone, Copy)]
pub enum Scheme {
    Light,
    Dark,
}

impl Browser {
    /// Starts a browser; `None` if browser tests are skipped.
    pub async fn start() -> Option<Self> {
        if std::env::var_os("ONETOOL_SKIP_BROWSER_TESTS").is_some_and(|value| !value.is_empty() && value != "0") {
            eprintln!("left out: ONETOOL_SKIP_BROWSER_TESTS is set");
            return None;
        }
        let name = NAMES.iter().find(|name| is_installed(name)).unwrap_or_else(|| {
            panic!(
                "no Chromium is installed: run scripts/test.sh, which installs it, or set ONETOOL_SKIP_BROWSER_TESTS=1"
            )
        });
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", PIPES, name])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut browser =
            Self { child, input, output, session: None, last_id: 0, events: Vec::new(), _profile: profile };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"})).await["targetId"].clone();
        let attached = browser.ask("Target.attachToTarget", json!({"targetId": target, "flatten": true})).await;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Network", "Runtime", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({})).await;
        }
        Some(browser)
    }

    /// Opens a file and waits until it is loaded.
    pub async fn open(&mut self, file: &Path) {
        self.events.clear();
        let answer = self.ask("Page.navigate", json!({"url": address(file)})).await;
        assert!(answer.get("errorText").is_none(), "{answer}");
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive().await;
            self.events.push(event);
        }
    }

    pub async fn prefer(&mut self, scheme: Scheme) {
        let value = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.ask("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    pub async fn resize(&mut self, width: u32) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Evaluates an expression in the page, regardless of the page's security policy.
    pub async fn evaluate(&mut self, expression: &str) -> Json {
        let question = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", question).await;
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Every address that the page requested.
    pub fn requested(&self) -> Vec<&str> {
        let requests = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        requests.map(|event| event["params"]["request"]["url"].as_str().unwrap()).collect()
    }

    /// Errors and refusals in the page.
    pub fn complaints(&self) -> Vec<&Json> {
        let is_complaint =
            |event: &&Json| event["method"] == "Log.entryAdded" || event["method"] == "Runtime.exceptionThrown";
        self.events.iter().filter(is_complaint).map(|event| &event["params"]).collect()
    }

    pub async fn close(mut self) {
        self.session = None;
        self.ask("Browser.close", json!({})).await;
        tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("the browser does not end").unwrap();
    }

    async fn ask(&mut self, method: &str, params: Json) -> Json {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.input.write_all(&bytes).await.unwrap();
        loop {
            let mut message = self.receive().await;
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    async fn receive(&mut self) -> Json {
        let mut bytes = Vec::new();
        tokio::time::timeout(PATIENCE, self.output.read_until(0, &mut bytes))
            .await
            .expect("the browser says nothing")
            .unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser is gone");
        serde_json::from_slice(&bytes).unwrap()
    }
}

/// A file's address.
pub fn address(file: &Path) -> String {
    format!("file://{}", file.display())
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
