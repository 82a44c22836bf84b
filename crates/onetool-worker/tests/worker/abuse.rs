//! Tools that misbehave hurt only themselves.

use std::sync::Arc;
use std::time::Duration;

use onetool_sdk::{ErrorKind, Value};
use onetool_worker::{NoServices, WorkerLimits, WorkerSettings};

use crate::toolbox::{Toolbox, eventually, is_alive};

const RUDE: &str = r#"
import os, signal, subprocess, sys, threading, time

def ok() -> int:
    return 42

def pid() -> int:
    return os.getpid()

def prints() -> str:
    print('{"jsonrpc":"2.0","id":1,"result":"forged"}')
    sys.stdout.write("no end of line")
    sys.stdout.flush()
    os.write(1, b'{"id":1}\n')
    subprocess.run(["echo", "from a child"], check=True)
    return "printed"

def reads() -> str:
    return repr(sys.stdin.read()) + repr(os.read(0, 10))

def closes() -> str:
    sys.stdout.close()
    for number in (0, 1, 2):
        os.close(number)
    return "closed"

def shouts() -> str:
    sys.stderr.write("x" * (1 << 20))
    os.write(2, b"y" * (1 << 20))
    return "shouted"

def hangs() -> None:
    time.sleep(3600)

def hangs_stubbornly() -> None:
    while True:
        try:
            time.sleep(3600)
        except BaseException:
            pass

def forks() -> str:
    if os.fork() == 0:
        return "child"
    return "parent"

def leaves_children() -> list:
    children = [subprocess.Popen(["sleep", "3600"]) for _ in range(3)]
    return [os.getpid()] + [child.pid for child in children]

def floods() -> str:
    from onetool import progress, log
    for number in range(20_000):
        progress(number)
    log("x" * 100_000)
    return "flooded"

def exits() -> None:
    print("last words", file=sys.stderr)
    os._exit(7)

def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

def closes_everything() -> str:
    os.closerange(0, 4096)
    return "closed"

def writes_rubbish() -> None:
    for number in range(100, 300):
        try:
            os.write(number, b"rubbish\n")
        except OSError:
            pass
    time.sleep(3600)

def huge() -> str:
    return "x" * (3 << 20)

def greedy() -> int:
    return len(bytearray(2 << 30))

def threads() -> str:
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return "started"
"#;

fn rude() -> Toolbox {
    Toolbox::with(
        &[("rude", RUDE)],
        WorkerSettings {
            max_message_bytes: 1 << 20,
            limits: WorkerLimits { memory_bytes: Some(1 << 30), ..WorkerLimits::default() },
            ..WorkerSettings::default()
        },
        Arc::new(NoServices),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_does_not_reach_the_channel() {
    let tools = rude();
    let pid = tools.int("rude.pid").await;
    assert_eq!(tools.text("rude.prints").await, "printed");
    assert_eq!(tools.text("rude.reads").await, "''b''");
    assert_eq!(tools.text("rude.shouts").await, "shouted");
    assert_eq!(tools.text("rude.floods").await, "flooded");
    assert_eq!(tools.text("rude.forks").await, "parent");
    assert_eq!(tools.text("rude.threads").await, "started");
    assert_eq!(tools.text("rude.closes").await, "closed");
    assert_eq!(tools.int("rude.ok").await, 42);
    assert_eq!(tools.int("rude.pid").await, pid, "all of it in one worker");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_worker_is_reported_and_replaced() {
    let tools = rude();
    let error = tools.call("rude.exits", &[]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("exit status 7") && error.message.contains("last words"), "{error}");
    assert_eq!(tools.int("rude.ok").await, 42);
    let error = tools.call("rude.dies", &[]).await.unwrap_err();
    assert!(error.message.contains("signal 9"), "{error}");
    assert_eq!(tools.int("rude.ok").await, 42);
    let error = tools.call("rude.closes_everything", &[]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(tools.int("rude.ok").await, 42);
    let error = tools.call("rude.writes_rubbish", &[]).await.unwrap_err();
    assert!(error.message.contains("not a message"), "{error}");
    assert_eq!(tools.int("rude.ok").await, 42);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_while_idle_is_replaced_silently() {
    let tools = rude();
    let pid = tools.int("rude.pid").await;
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid as i32).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    let mut answer = tools.call("rude.ok", &[]).await;
    if answer.is_err() {
        // The call may have been in flight when the worker died.
        answer = tools.call("rude.ok", &[]).await;
    }
    assert_eq!(answer, Ok(Value::Int(42)));
    assert_ne!(tools.int("rude.pid").await, pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_call_times_out_and_the_worker_survives_if_it_can() {
    let tools = rude();
    let pid = tools.int("rude.pid").await;
    let mut ctx = tools.context();
    ctx.deadline = Some(std::time::Instant::now() + Duration::from_millis(100));
    assert_eq!(tools.call_in("rude.hangs", &[], &ctx).await.unwrap_err().kind, ErrorKind::Timeout);
    assert_eq!(tools.int("rude.ok").await, 42);
    assert_eq!(tools.int("rude.pid").await, pid, "the sleep was interrupted");
    let ctx = tools.context();
    let (stubborn, ()) = tokio::join!(tools.call_in("rude.hangs_stubbornly", &[], &ctx), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        ctx.cancel.cancel();
    });
    assert_eq!(stubborn.unwrap_err().kind, ErrorKind::Cancelled);
    eventually("the death of the stubborn worker", || !is_alive(pid)).await;
    assert_ne!(tools.int("rude.pid").await, pid, "a call that can't be interrupted takes its worker with it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_caller_leaves_is_cancelled() {
    let tools = rude();
    let pid = tools.int("rude.pid").await;
    let left = tokio::time::timeout(Duration::from_millis(100), tools.call("rude.hangs", &[])).await;
    assert!(left.is_err());
    assert_eq!(tools.int("rude.pid").await, pid, "the next call did not wait for an hour");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_an_error() {
    let tools = rude();
    let pid = tools.int("rude.pid").await;
    assert_eq!(tools.call("rude.huge", &[]).await.unwrap_err().kind, ErrorKind::TooLarge);
    let arguments = [("value", Value::from("x".repeat(2 << 20)))];
    assert_eq!(tools.call("rude.ok", &arguments).await.unwrap_err().kind, ErrorKind::TooLarge);
    assert_eq!(tools.call("rude.greedy", &[]).await.unwrap_err().exception(), "MemoryError");
    assert_eq!(tools.int("rude.pid").await, pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_outlives_the_source() {
    let tools = rude();
    let Value::List(pids) = tools.call("rude.leaves_children", &[]).await.unwrap() else { panic!("no pids") };
    let pids: Vec<i64> = pids.iter().map(|pid| if let Value::Int(pid) = pid { *pid } else { 0 }).collect();
    assert!(pids.len() == 4 && pids.iter().all(|pid| is_alive(*pid)));
    onetool_sdk::ToolSource::shutdown(&*tools.source).await;
    eventually("the death of all processes", || !pids.iter().any(|pid| is_alive(*pid))).await;
    assert_eq!(tools.call("rude.ok", &[]).await.unwrap_err().kind, ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_takes_its_children_along() {
    let tools = rude();
    let Value::List(pids) = tools.call("rude.leaves_children", &[]).await.unwrap() else { panic!("no pids") };
    let pids: Vec<i64> = pids.iter().map(|pid| if let Value::Int(pid) = pid { *pid } else { 0 }).collect();
    let _ = tools.call("rude.dies", &[]).await.unwrap_err();
    eventually("the death of all processes", || !pids.iter().any(|pid| is_alive(*pid))).await;
}
