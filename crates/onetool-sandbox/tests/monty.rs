//! The Monty engine through real children: what programs see, what limits do, and what a hostile child cannot do.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support {
    pub(crate) mod toolbox;
}

use std::path::PathBuf;
use std::time::Duration;

use onetool_sandbox::monty::{Monty, MontySettings};
use onetool_sandbox::{Execution, Failure, Limits, Program};
use onetool_sdk::Value;
use support::toolbox::Toolbox;
use tokio_util::sync::CancellationToken;

fn settings(executable: PathBuf) -> MontySettings {
    MontySettings {
        executable,
        prewarmed: 1,
        max_children: 4,
        max_waiting: 4,
        wait: Duration::from_secs(30),
        idle_timeout: Duration::from_mins(1),
    }
}

fn engine() -> Monty {
    Monty::new(settings(env!("CARGO_BIN_EXE_onetool-sandbox-child").into()))
}

async fn run_with(engine: &Monty, code: &str, limits: &Limits) -> Execution {
    let program = Program { code: code.to_owned(), script_name: "run.py".to_owned(), ..Program::default() };
    engine.execute(&program, limits, Toolbox::shared(), CancellationToken::new()).await
}

async fn run(engine: &Monty, code: &str) -> Execution {
    run_with(engine, code, &Limits::default()).await
}

fn raised(result: &Result<Value, Failure>) -> (&str, &str) {
    match result {
        Err(Failure::Raised { exception, message, .. }) => (exception, message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn programs_print_call_and_look_up() {
    let engine = engine();
    let execution = run(&engine, "print('a')\nx = pack.show(1, b=answer)\nprint(pack.home)\nx").await;
    assert_eq!(execution.result, Ok(Value::from("pack.show(1, b=42)")));
    assert_eq!((execution.printed.as_str(), execution.calls), ("a\n/home/project\n", 1));
    let caught = "try:\n    pack.fail('KeyError', 'k')\nexcept KeyError as e:\n    r = str(e)\nr";
    assert_eq!(run(&engine, caught).await.result, Ok(Value::from("'k'")));
    let result = run(&engine, "missing").await.result;
    assert_eq!(raised(&result).0, "NameError");
    let result = run(&engine, "pack.fail('Odd', 'm')").await.result;
    assert_eq!(raised(&result), ("Odd", "m"));
    let together = "import asyncio\nawait asyncio.gather(pack.awaited__meet(1), pack.awaited__meet(2))";
    assert_eq!(run(&engine, together).await.result, Ok(Value::List(vec![Value::Int(1), Value::Int(2)])));
}

#[tokio::test]
async fn names_are_read_back_where_they_exist() {
    let program = Program {
        code: "kept = [1]\nprint('once')".to_owned(),
        script_name: "run.py".to_owned(),
        read_back: vec!["kept".to_owned(), "missing".to_owned()],
        ..Program::default()
    };
    let execution = engine().execute(&program, &Limits::default(), Toolbox::shared(), CancellationToken::new()).await;
    assert_eq!(execution.read_back, [("kept".to_owned(), Value::List(vec![Value::Int(1)]))]);
    assert_eq!((execution.result, execution.printed.as_str()), (Ok(Value::None), "once\n"));
}

/// The interpreter cannot raise with a value that is not text. That is an error of the run, which full Python may
/// finish, and the sandbox keeps working.
#[tokio::test]
async fn an_exception_with_a_value_of_a_tool_ends_only_the_run() {
    let engine = engine();
    for value in ["{'a': [1]}", "[1, 2]", "None", "5"] {
        let result = run(&engine, &format!("x = pack.echo({value})\nraise ValueError(x)")).await.result;
        let (exception, message) = raised(&result);
        assert_eq!(exception, "RuntimeError", "{value}");
        assert!(message.contains("exceptions can only be called"), "{message}");
    }
    let result = run(&engine, "raise ValueError(pack.echo('text'))").await.result;
    assert_eq!(raised(&result), ("ValueError", "text"));
    assert_eq!(run(&engine, "1 + 1").await.result, Ok(Value::Int(2)));
}

#[tokio::test]
async fn limits_end_a_run_and_not_the_engine() {
    let engine = engine();
    let limits = Limits {
        max_compute: Duration::from_millis(200),
        max_memory: 32 << 20,
        max_calls: 3,
        max_printed: 10,
        ..Limits::default()
    };
    let result = run_with(&engine, "while True:\n    pass", &limits).await.result;
    assert_eq!(result, Err(Failure::Timeout(limits.max_compute)));
    for code in ["[0] * 10**9", "x = []\nwhile True:\n    x.append('x' * 1000)"] {
        assert_eq!(run_with(&engine, code, &limits).await.result, Err(Failure::Memory), "{code}");
    }
    let result = run_with(&engine, "while True:\n    pack.show()", &limits).await.result;
    assert_eq!(result, Err(Failure::Calls(3)));
    let execution = run_with(&engine, "print('0123456789abc')\n1", &limits).await;
    assert_eq!((execution.printed.as_str(), execution.printed_truncated), ("0123456789", true));
    let waits = Limits { timeout: Duration::from_millis(200), ..Limits::default() };
    assert_eq!(run_with(&engine, "pack.never()", &waits).await.result, Err(Failure::Timeout(waits.timeout)));
    assert_eq!(run(&engine, "1 + 1").await.result, Ok(Value::Int(2)));
}

#[tokio::test]
async fn values_that_are_too_large_or_too_deep_are_errors_of_the_run() {
    let engine = engine();
    let limits = Limits { max_value_bytes: 1 << 20, ..Limits::default() };
    for code in ["'x' * 2_000_000", "pack.echo('x' * 2_000_000)", "raise ValueError('x' * 2_000_000)"] {
        let result = run_with(&engine, code, &limits).await.result;
        assert!(matches!(result, Err(Failure::TooLarge(_))), "{code}\n{result:?}");
    }
    // Values that are small in the program and large in the server: 100 bytes for every two in the message.
    let limits = Limits { max_memory: 64 << 20, ..Limits::default() };
    let result = run_with(&engine, "[0] * 1_000_000", &limits).await.result;
    assert!(matches!(result, Err(Failure::TooLarge(_) | Failure::Memory)), "{result:?}");
    let deep = "x = None\nfor _ in range(150):\n    x = [x]\n";
    let result = run(&engine, &format!("{deep}x")).await.result;
    assert_eq!(raised(&result).0, "RuntimeError");
    let caught = format!("{deep}try:\n    pack.echo(x)\nexcept RuntimeError:\n    x = 'caught'\nx");
    assert_eq!(run(&engine, &caught).await.result, Ok(Value::from("caught")));
    assert_eq!(run(&engine, "1 << 100_000").await.result, Ok(Value::BigInt(num_bigint::BigInt::from(1) << 100_000)));
}

#[tokio::test]
async fn children_of_a_burst_end_when_it_is_quiet() {
    let executable = env!("CARGO_BIN_EXE_onetool-sandbox-child").into();
    let engine = Monty::new(MontySettings { idle_timeout: Duration::from_millis(50), ..settings(executable) });
    let host = Toolbox::shared();
    let program = Program { code: "pack.meet(1)".to_owned(), script_name: "run.py".to_owned(), ..Program::default() };
    let limits = Limits::default();
    let (first, second) = tokio::join!(
        engine.execute(&program, &limits, host.clone(), CancellationToken::new()),
        engine.execute(&program, &limits, host.clone(), CancellationToken::new()),
    );
    assert_eq!((first.result, second.result), (Ok(Value::Int(1)), Ok(Value::Int(1))));
    let shrunk = async {
        while engine.idle_children().len() != 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), shrunk).await.unwrap();
    assert_eq!(run(&engine, "1 + 1").await.result, Ok(Value::Int(2)));
}

/// Every thread of a child sits behind a filter of system calls, and none can gain privileges.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_is_confined_by_the_kernel() {
    let engine = engine();
    assert_eq!(run(&engine, "1 + 1").await.result, Ok(Value::Int(2)));
    let [child] = engine.idle_children()[..] else { panic!("one child is expected") };
    let mut threads = 0;
    for task in std::fs::read_dir(format!("/proc/{child}/task")).unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let value =
            |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim).unwrap_or_default();
        assert_eq!((value("Seccomp:"), value("NoNewPrivs:")), ("2", "1"), "{status}");
        threads += 1;
    }
    assert_eq!(threads, 3);
    let environment = std::fs::read(format!("/proc/{child}/environ")).unwrap();
    assert!(environment.is_empty(), "{environment:?}");
    let limits = std::fs::read_to_string(format!("/proc/{child}/limits")).unwrap();
    assert!(limits.lines().any(|line| line.starts_with("Max file size") && line.contains(" 0 ")), "{limits}");
}

/// An engine whose child sends what the script prints, whatever it receives.
fn forged(folder: &std::path::Path, script: &str) -> Monty {
    let (source, executable) = (folder.join("script"), folder.join("child"));
    std::fs::write(&source, format!("#!/bin/sh\n{script}\n")).unwrap();
    // Another process writes the program: a file that this process, or a child another test has just forked, has open
    // for writing cannot be executed.
    let copied = std::process::Command::new("install").args(["-m", "755"]).args([&source, &executable]).status();
    assert!(copied.unwrap().success());
    Monty::new(MontySettings { prewarmed: 0, ..settings(executable) })
}

#[tokio::test]
async fn a_child_that_lies_ends_only_its_own_run() {
    // A chunk's header is its length, and 0x80 in the highest byte for the last one; 6 is the end of a program.
    for (script, is_expected) in [
        ("exit 3", (|failure| matches!(failure, Failure::Crashed(_))) as fn(&Failure) -> bool),
        ("cat /dev/zero", |failure| matches!(failure, Failure::Crashed(_) | Failure::Timeout(_))),
        (r"printf '\377\377\377\277'; cat /dev/zero", |failure| matches!(failure, Failure::TooLarge(_))),
        (r"printf '\377\377\377\017'; cat /dev/zero", |failure| matches!(failure, Failure::TooLarge(_))),
        (r"printf '\001\000\000\200\143'; sleep 9", |failure| matches!(failure, Failure::Crashed(_))),
        // A list of four billion values.
        (r"printf '\007\000\000\200\006\010\377\377\377\377\017'; sleep 9", |failure| {
            matches!(failure, Failure::Crashed(_))
        }),
        // Endlessly nested lists.
        (
            r"printf '\000\000\002\000\006'; yes | tr '\171\012' '\010\001' | head -c 131071; printf '\000\000\000\200'; sleep 9",
            |failure| matches!(failure, Failure::TooLarge(_) | Failure::Crashed(_)),
        ),
        ("sleep 9", |failure| matches!(failure, Failure::Timeout(_))),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { timeout: Duration::from_secs(3), max_memory: 1 << 20, ..Limits::default() };
        let result = run_with(&forged(folder.path(), script), "1 + 1", &limits).await.result;
        assert!(result.as_ref().is_err_and(is_expected), "{script}\n{result:?}");
    }
}

/// A message of maximum size, made of the smallest values, is refused before it takes much more than its bytes.
#[tokio::test]
async fn a_bomb_of_small_values_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    // `\006` the end, `\010` a list, of 50,000,000 (`\200\341\353\027`) times `\000`.
    let script = r"printf '\206\360\372\202\006\010\200\341\353\027'; head -c 50000000 /dev/zero; sleep 9";
    let result = run(&forged(folder.path(), script), "1 + 1").await.result;
    assert!(matches!(result, Err(Failure::TooLarge(_))), "{result:?}");
}
