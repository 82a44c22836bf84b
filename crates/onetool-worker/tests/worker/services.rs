//! What a tool can request: secrets, configuration, other tools.

use std::sync::Arc;

use onetool_sdk::{CallContext, ErrorKind, Progress, Value};
use onetool_worker::{WorkerServices, WorkerSettings};

use crate::toolbox::{Reports, Toolbox};

struct Services;

impl WorkerServices for Services {
    fn secret(&self, name: &str) -> Option<String> {
        matches!(name, "API_KEY" | "OTHER_KEY").then(|| format!("value-of-{name}"))
    }

    fn config(&self, pack: &str, key: &str) -> Option<serde_json::Value> {
        (pack == "a" && key == "limit").then(|| serde_json::json!({"max": 3}))
    }
}

const ASKS: &str = r#"
# /// script
# dependencies = []
# [tool.onetool]
# secrets = ["API_KEY", "UNSET"]
# ///
import sys
from onetool import call_tool, call_tool_async, get_config, get_secret, log, progress
import ot_sdk

at_import = get_config("a", "limit")

def secrets() -> list:
    return [get_secret("API_KEY") == "value-of-API_KEY", get_secret("UNSET", None), ot_sdk.get_secret("UNSET", "x")]

def needs() -> str:
    return get_secret("UNSET")

def forbidden() -> str:
    return get_secret("OTHER_KEY")

def leaks() -> str:
    key = get_secret("API_KEY")
    print("key is", key, file=sys.stderr)
    raise ValueError("failed with " + key)

def crashes() -> str:
    import os
    print("key is", get_secret("API_KEY"), file=sys.stderr)
    os._exit(1)

def config() -> list:
    return [at_import, get_config("a", "limit"), get_config("a.limit"), get_config("a", "other", 5)]

def other(number: int) -> list:
    return call_tool("b.double", number=number)

def other_fails() -> str:
    try:
        call_tool("b.fail")
    except ValueError as error:
        return "caught " + str(error)

def unknown() -> str:
    return call_tool("nope.nothing")

def itself() -> int:
    return call_tool("a.leaf")

def around() -> int:
    return call_tool("b.back")

def leaf() -> int:
    return 1

async def both(number: int) -> list:
    import asyncio
    return await asyncio.gather(*[call_tool_async("b.double", number=n) for n in range(number)])

async def itself_async() -> int:
    return await call_tool_async("a.leaf")

def reports() -> None:
    with log("work", level="debug", n=1) as span:
        span.add("more", 2)
        progress(1, 2, "half")
        progress(2, 2)

if __name__ == "__main__":
    raise RuntimeError("the loop of the file itself must not run")
"#;

const SERVES: &str = r#"
from ot_sdk import call_tool, worker_main

def double(number: int) -> tuple:
    return (number * 2, b"x")

def fail():
    raise ValueError("inner")

def back() -> int:
    return call_tool("a.leaf")

if __name__ == "__main__":
    worker_main()
"#;

fn asking() -> Toolbox {
    Toolbox::with(&[("a", ASKS), ("b", SERVES)], WorkerSettings::default(), Arc::new(Services))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_named_secrets_are_given_and_none_is_shown() {
    let tools = asking();
    assert_eq!(tools.call("a.secrets", &[]).await.unwrap().repr(), "[True, None, 'x']");
    let error = tools.call("a.needs", &[]).await.unwrap_err();
    assert_eq!(error.exception(), "LookupError");
    assert!(error.message.contains("add `UNSET: value` to secrets.yaml"), "{error}");
    let error = tools.call("a.forbidden", &[]).await.unwrap_err();
    assert_eq!(error.exception(), "PermissionError");
    assert!(error.message.contains("OTHER_KEY") && !error.message.contains("value-of"), "{error}");
    let error = tools.call("a.leaks", &[]).await.unwrap_err();
    assert_eq!(error.message, "failed with [REDACTED]");
    assert!(!error.traceback.unwrap().contains("value-of"));
    let error = tools.call("a.crashes", &[]).await.unwrap_err();
    assert!(error.message.contains("key is [REDACTED]"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_is_given_with_defaults() {
    let tools = asking();
    let value = tools.call("a.config", &[]).await.unwrap();
    assert_eq!(value.repr(), "[{'max': 3}, {'max': 3}, {'max': 3}, 5]");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_call_tools() {
    let tools = asking();
    assert_eq!(tools.call("a.other", &[("number", Value::Int(4))]).await.unwrap().repr(), "(8, b'x')");
    assert_eq!(tools.text("a.other_fails").await, "caught inner");
    assert_eq!(tools.call("a.unknown", &[]).await.unwrap_err().exception(), "AttributeError");
    let both = tools.call("a.both", &[("number", Value::Int(3))]).await.unwrap();
    assert_eq!(both.repr(), "[(0, b'x'), (2, b'x'), (4, b'x')]");
    assert_eq!(tools.int("a.itself_async").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_can_call_its_own_pack_directly_and_around() {
    let tools = asking();
    for name in ["a.itself", "a.around", "a.leaf"] {
        assert_eq!(tools.int(name).await, 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_reaches_the_caller_before_the_result() {
    let tools = asking();
    tools.int("a.leaf").await;
    let reports = Arc::new(Reports::default());
    let ctx = CallContext { progress: reports.clone(), ..tools.context() };
    tools.call_in("a.reports", &[], &ctx).await.unwrap();
    let expected = [
        Progress { done: 1.0, total: Some(2.0), message: Some("half".into()) },
        Progress { done: 2.0, total: Some(2.0), message: None },
    ];
    assert_eq!(*reports.0.lock(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_other_tools_says_so() {
    let tools = asking();
    let ctx = CallContext::default();
    let error = tools.call_in("a.other", &[("number", Value::Int(1))], &ctx).await.unwrap_err();
    assert!(error.message.contains("no other tools"), "{error}");
    assert!(!matches!(error.kind, ErrorKind::Internal));
}
