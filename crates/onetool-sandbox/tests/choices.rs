//! The table for choosing an engine matches what the engines do: every entry of `src/choose/table/monty.tsv` is a
//! program that runs in both.
//!
//! With `ONETOOL_UPDATE=1` in the environment the file is rewritten, e.g. for another version of the interpreter.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support {
    pub(crate) mod toolbox;
}

use std::path::PathBuf;
use std::time::Duration;

use onetool_sandbox::monty::{Monty, MontySettings};
use onetool_sandbox::{CPython, CPythonSettings, Execution, Limits, Program};
use support::toolbox::Toolbox;
use tokio_util::sync::CancellationToken;

struct Entry {
    kind: String,
    name: String,
    verdict: String,
    /// With `\n` for line endings.
    program: String,
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/choose/table/monty.tsv")
}

fn entries() -> Vec<Entry> {
    let text = std::fs::read_to_string(path()).unwrap();
    let entry = |line: &str| {
        let fields: Vec<String> = line.split('\t').map(str::to_owned).collect();
        let [kind, name, verdict, program] = fields.try_into().unwrap();
        Entry { kind, name, verdict, program }
    };
    text.lines().map(entry).collect()
}

fn verdict(entry: &Entry, monty: &Execution, python: &Execution) -> String {
    let verdict = match (&monty.result, &python.result) {
        (Ok(ours), Ok(theirs)) if ours == theirs => "has",
        (Ok(_), Ok(_)) => "differs",
        (Err(_), Ok(_)) => "lacks",
        // This Python lacks it, but another version may have it.
        (Ok(_), Err(_)) if entry.verdict == "differs" => "differs",
        (Ok(_), Err(_)) => "has",
        // A program that fails everywhere tells nothing of the syntax that it tries.
        (Err(_), Err(_)) if matches!(entry.kind.as_str(), "syntax" | "difference") => "fails",
        (Err(_), Err(_)) => "lacks",
    };
    verdict.to_owned()
}

#[tokio::test]
async fn the_table_says_what_the_engines_do() {
    let child = PathBuf::from(env!("CARGO_BIN_EXE_onetool-sandbox-child"));
    let monty = Monty::new(MontySettings {
        executable: child.clone(),
        prewarmed: 1,
        max_children: 1,
        max_waiting: 1,
        wait: Duration::from_secs(30),
        idle_timeout: Duration::from_mins(1),
    });
    let cpython = CPython::new(CPythonSettings { launcher: Some(child), ..Default::default() });
    let limits = Limits { timeout: Duration::from_secs(30), ..Limits::default() };
    let mut lines = String::new();
    let mut drift = Vec::new();
    for entry in entries() {
        let program = Program {
            code: entry.program.replace("\\n", "\n"),
            script_name: "run.py".to_owned(),
            ..Program::default()
        };
        let (host, cancel) = (Toolbox::shared(), CancellationToken::new());
        let ours = monty.execute(&program, &limits, host.clone(), cancel.clone()).await;
        let theirs = cpython.execute(&program, &limits, host, cancel).await;
        let found = verdict(&entry, &ours, &theirs);
        if found != entry.verdict {
            drift.push(format!("{} {}: {} in the table, {found} by trial", entry.kind, entry.name, entry.verdict));
        }
        lines.push_str(&format!("{}\t{}\t{found}\t{}\n", entry.kind, entry.name, entry.program));
    }
    if std::env::var_os("ONETOOL_UPDATE").is_some() {
        std::fs::write(path(), lines).unwrap();
        return;
    }
    assert!(drift.is_empty(), "{}\nONETOOL_UPDATE=1 writes the table anew", drift.join("\n"));
}
