//! Plain functions run concurrently, and one that does not stop affects no others.

use std::sync::Arc;
use std::time::Duration;

use onetool_sdk::{ErrorKind, Value};
use onetool_worker::{NoServices, WorkerSettings};

use crate::toolbox::{Toolbox, eventually, is_alive};

const SLOW: &str = r#"
import os, threading, time

gate = threading.Event()
meeting = threading.Barrier(4)
entered = []
met = []

def pid() -> int:
    return os.getpid()

def meet() -> int:
    """Returns only when four calls are here at the same time."""
    meeting.wait(60)
    return 4

def wait() -> str:
    """Waits in the operating system, where no exception reaches a thread."""
    entered.append(threading.current_thread() is threading.main_thread())
    gate.wait(3600)
    return "opened"

def open_gate() -> int:
    gate.set()
    return len(entered)

def spin() -> None:
    """Computes for ever; an exception can end it."""
    entered.append(False)
    while True:
        time.sleep(0.001)

def sleep_for_ever() -> None:
    entered.append(False)
    while True:
        try:
            time.sleep(3600)
        except BaseException:
            pass

def hold(path: str) -> int:
    """Waits until a file is there."""
    entered.append(False)
    while not os.path.exists(path):
        time.sleep(0.001)
    return os.getpid()

def where() -> bool:
    return threading.current_thread() is threading.main_thread()

def progress_for_ever() -> None:
    from onetool import progress
    entered.append(False)
    while True:
        progress(1, message="x" * 5000)

def how_many() -> int:
    return len(entered)

def later():
    import asyncio
    async def inner():
        entered.append(False)
        await asyncio.sleep(3600)
    return inner()
"#;

/// Waits until `count` calls are inside their functions.
async fn entered(tools: &Toolbox, count: i64) {
    while tools.int("s.how_many").await < count {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_functions_run_side_by_side() {
    let tools = Toolbox::new(&[("s", SLOW)]);
    assert_eq!(tools.call("s.where", &[]).await, Ok(Value::Bool(true)), "a call alone is on the main thread");
    let met = futures_util::future::join_all((0..4).map(|_| tools.call("s.meet", &[]))).await;
    assert!(met.iter().all(|met| *met == Ok(Value::Int(4))), "{met:?}");
    // One slow call does not block its pack.
    let (slow, quick) = tokio::join!(tools.call("s.wait", &[]), async {
        entered(&tools, 1).await;
        let quick = tools.call("s.where", &[]).await;
        tools.int("s.open_gate").await;
        quick
    });
    assert_eq!((slow, quick), (Ok(Value::from("opened")), Ok(Value::Bool(false))));
    assert_eq!(tools.source.live_workers(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_can_ask_for_one_call_at_a_time_and_the_configuration_too() {
    let alone = "import time\nrunning = most = 0\ndef alone() -> int:\n    global running, most\n    running += 1\n    most = max(most, running)\n    time.sleep(0.005)\n    running -= 1\n    return most\n";
    let header = "# /// script\n# dependencies = []\n# [tool.onetool]\n# threads = 1\n# ///\n";
    let said = Toolbox::new(&[("a", &format!("{header}{alone}"))]);
    let settings = WorkerSettings { threads: 1, ..WorkerSettings::default() };
    let configured = Toolbox::with(&[("a", alone)], settings, Arc::new(NoServices));
    for tools in [said, configured] {
        let most = futures_util::future::join_all((0..10).map(|_| tools.call("a.alone", &[]))).await;
        assert!(most.iter().all(|most| *most == Ok(Value::Int(1))), "{most:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_calls_than_threads_wait_for_their_turn() {
    let settings = WorkerSettings { threads: 2, ..WorkerSettings::default() };
    let source = "import threading, time\nlock = threading.Lock()\nrunning = most = 0\ndef f() -> int:\n    global running, most\n    with lock:\n        running += 1\n        most = max(most, running)\n    time.sleep(0.002)\n    with lock:\n        running -= 1\n    return most\n";
    let tools = Toolbox::with(&[("a", source)], settings, Arc::new(NoServices));
    let most = futures_util::future::join_all((0..20).map(|_| tools.call("a.f", &[]))).await;
    assert!(most.iter().all(|most| matches!(most, Ok(Value::Int(1..=2)))), "{most:?}");
    assert!(most.contains(&Ok(Value::Int(2))), "{most:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_thread_that_can_stop_leaves_its_worker_alone() {
    let tools = Toolbox::new(&[("s", SLOW)]);
    let pid = tools.int("s.pid").await;
    for (count, name) in ["s.spin", "s.progress_for_ever", "s.later"].into_iter().enumerate() {
        let file = tools.folder.path().join(format!("gate{count}"));
        let main = tools.context();
        let arguments = [("path", Value::from(file.to_string_lossy().as_ref()))];
        // The main thread is busy, so the call runs on another one.
        let (held, cancelled, ()) =
            tokio::join!(tools.call("s.hold", &arguments), tools.call_in(name, &[], &main), async {
                entered(&tools, 2 * (count as i64 + 1)).await;
                main.cancel.cancel();
                std::fs::write(&file, "").unwrap();
            });
        assert_eq!(held, Ok(Value::Int(pid)), "{name}");
        assert_eq!(cancelled.unwrap_err().kind, ErrorKind::Cancelled, "{name}");
    }
    // All threads are free again, and the channel is intact.
    let met = futures_util::future::join_all((0..4).map(|_| tools.call("s.meet", &[]))).await;
    assert!(met.iter().all(|met| *met == Ok(Value::Int(4))), "{met:?}");
    assert_eq!(tools.int("s.pid").await, pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_thread_that_goes_on_is_replaced_and_other_calls_finish() {
    let settings = WorkerSettings { cancel_grace: Duration::from_millis(100), ..WorkerSettings::default() };
    let tools = Toolbox::with(&[("s", SLOW)], settings, Arc::new(NoServices));
    let pid = tools.int("s.pid").await;
    let file = tools.folder.path().join("gate");
    let arguments = [("path", Value::from(file.to_string_lossy().as_ref()))];
    let stuck = tools.context();
    let (held, cancelled, ()) =
        tokio::join!(tools.call("s.hold", &arguments), tools.call_in("s.sleep_for_ever", &[], &stuck), async {
            entered(&tools, 2).await;
            stuck.cancel.cancel();
            // New calls get a new worker, while the old one still serves.
            let mut next = tools.int("s.pid").await;
            while next == pid {
                tokio::time::sleep(Duration::from_millis(5)).await;
                next = tools.int("s.pid").await;
            }
            assert!(is_alive(pid));
            std::fs::write(&file, "").unwrap();
        });
    assert_eq!(cancelled.unwrap_err().kind, ErrorKind::Cancelled);
    assert_eq!(held, Ok(Value::Int(pid)), "a call beside it is served to its end");
    eventually("the end of the old worker", || !is_alive(pid)).await;
    assert_eq!(tools.source.live_workers(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_of_a_pack_call_each_other_until_it_goes_too_deep() {
    let source = "from onetool import call_tool\ndef down(n: int) -> int:\n    return 0 if n == 0 else 1 + call_tool('r.down', n=n - 1)\n";
    let settings = WorkerSettings { threads: 1, ..WorkerSettings::default() };
    let tools = Toolbox::with(&[("r", source)], settings, Arc::new(NoServices));
    assert_eq!(tools.call("r.down", &[("n", Value::Int(5))]).await, Ok(Value::Int(5)));
    let error = tools.call("r.down", &[("n", Value::Int(1000))]).await.unwrap_err();
    assert!(error.message.contains("waiting for it already"), "{error}");
    assert_eq!(tools.call("r.down", &[("n", Value::Int(1))]).await, Ok(Value::Int(1)));
}
