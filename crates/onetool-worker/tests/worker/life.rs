//! How workers start and end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use onetool_sdk::{CallContext, ErrorKind, ToolSource as _, Value};
use onetool_worker::{NoServices, WorkerSettings};

use crate::toolbox::{Reports, Toolbox, eventually, is_alive};

const PID: &str = "import os\ndef pid() -> int:\n    return os.getpid()\n";
const SIX: &str = "# /// script\n# requires-python = \">=3.9\"\n# dependencies = [\"six\"]\n# ///\nimport os, sys, six\ndef version() -> str:\n    return six.__version__\ndef prefix() -> str:\n    return sys.prefix\ndef pid() -> int:\n    return os.getpid()\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_first_call_starts_a_worker_and_the_next_ones_use_it() {
    let tools = Toolbox::new(&[("a", PID), ("b", PID)]);
    assert_eq!(tools.source.live_workers(), 0, "nothing runs before it is called");
    let pid = tools.int("a.pid").await;
    assert_eq!(tools.int("a.pid").await, pid);
    assert_ne!(pid, i64::from(std::process::id()));
    assert_eq!(tools.source.live_workers(), 1);
    assert_ne!(tools.int("b.pid").await, pid);
    assert_eq!(tools.source.live_workers(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_first_calls_share_one_start() {
    let tools = Toolbox::new(&[("a", PID)]);
    let pids = futures_util::future::join_all((0..8).map(|_| tools.call("a.pid", &[]))).await;
    assert!(pids.iter().all(|pid| pid.is_ok() && *pid == pids[0]), "{pids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_call_after_a_kill_finds_a_new_worker() {
    let tools = Toolbox::new(&[("a", PID)]);
    for round in 0..5 {
        let pid = tools.int("a.pid").await;
        let killed = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
        // Without yielding to any task that could notice it meanwhile.
        while is_alive(pid) {
            std::hint::spin_loop();
        }
        let next = tools.call("a.pid", &[]).await;
        assert!(matches!(next, Ok(Value::Int(next)) if next != pid), "round {round}: {next:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_may_have_had_its_effect_is_not_repeated() {
    let die = "import os\ndef die(file: str):\n    with open(file, 'a') as tally:\n        tally.write('x')\n    os._exit(9)\n";
    let tools = Toolbox::new(&[("d", die)]);
    let tally = tools.folder.path().join("tally");
    let error = tools.call("d.die", &[("file", tally.to_string_lossy().as_ref().into())]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert_eq!(std::fs::read_to_string(&tally).unwrap(), "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn dependencies_are_installed_apart_and_progress_is_told() {
    let tools = Toolbox::new(&[("s", SIX)]);
    let reports = Arc::new(Reports::default());
    let ctx = CallContext { progress: reports.clone(), ..tools.context() };
    let version = tools.call_in("s.version", &[], &ctx).await.unwrap();
    assert!(matches!(version, Value::Str(text) if text.starts_with("1.")));
    let told: Vec<String> = reports.0.lock().iter().filter_map(|report| report.message.clone()).collect();
    assert!(told.iter().all(|text| text.starts_with("s: ")) && !told.is_empty(), "{told:?}");
    let prefix = PathBuf::from(tools.text("s.prefix").await);
    assert!(prefix.join("pyvenv.cfg").is_file() && !prefix.starts_with(tools.folder.path()), "{prefix:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_can_not_be_met_is_an_error_that_names_the_file() {
    let source = "# /// script\n# dependencies = [\"six==0.0.0.1\"]\n# ///\ndef f(): ...\n";
    let tools = Toolbox::new(&[("n", source), ("a", PID)]);
    let error = tools.call("n.f", &[]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("n_tools.py") && error.message.contains("six"), "{error}");
    tools.int("a.pid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_a_header_runs_and_fails_only_where_a_package_is_missing() {
    let tools = Toolbox::new(&[("m", "import surely_not_installed\ndef f(): ...\n"), ("a", PID)]);
    let error = tools.call("m.f", &[]).await.unwrap_err();
    assert_eq!(error.exception(), "ModuleNotFoundError");
    assert!(error.message.contains("m_tools.py") && error.hint.unwrap().contains("dependencies"));
    tools.int("a.pid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_header_is_none_and_told() {
    let tools = Toolbox::new(&[("m", "# /// script\n# dependencies = [\n# ///\ndef f() -> int:\n    return 1\n")]);
    assert_eq!(tools.int("m.f").await, 1);
    let notes = tools.source.health();
    assert!(notes.len() == 1 && notes[0].message.contains("not valid"), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_uv_plain_files_run_and_others_say_how_to_get_it() {
    let settings = WorkerSettings { uv: PathBuf::from("/nonexistent/uv"), ..WorkerSettings::default() };
    let tools = Toolbox::with(&[("a", PID), ("s", SIX)], settings, Arc::new(NoServices));
    tools.int("a.pid").await;
    let error = tools.call("s.version", &[]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("six") && error.hint.unwrap().contains("install uv"));
    let notes = tools.source.health();
    assert!(notes.len() == 1 && notes[0].subject == "uv" && notes[0].message.contains("called: s;"), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_ends_and_a_call_puts_that_off() {
    let settings = WorkerSettings { idle_timeout: Duration::from_millis(1500), ..WorkerSettings::default() };
    let tools = Toolbox::with(&[("a", PID)], settings, Arc::new(NoServices));
    let pid = tools.int("a.pid").await;
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(tools.int("a.pid").await, pid, "calls keep it alive");
    }
    eventually("the end of the idle worker", || tools.source.live_workers() == 0 && !is_alive(pid)).await;
    assert_ne!(tools.int("a.pid").await, pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_call_is_not_idle() {
    let settings = WorkerSettings { idle_timeout: Duration::from_millis(50), ..WorkerSettings::default() };
    let source = "import time\ndef slow() -> int:\n    time.sleep(0.5)\n    return 1\n";
    let tools = Toolbox::with(&[("a", source)], settings, Arc::new(NoServices));
    assert_eq!(tools.int("a.slow").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_idle_makes_room() {
    let settings = WorkerSettings { max_workers: 2, ..WorkerSettings::default() };
    let tools = Toolbox::with(&[("a", PID), ("b", PID), ("c", PID)], settings, Arc::new(NoServices));
    let a = tools.int("a.pid").await;
    let b = tools.int("b.pid").await;
    assert_eq!(tools.int("a.pid").await, a);
    tools.int("c.pid").await;
    eventually("the end of b", || !is_alive(b)).await;
    assert!(is_alive(a));
    assert_eq!(tools.source.live_workers(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_worker_is_waited_for() {
    let settings = WorkerSettings { max_workers: 1, ..WorkerSettings::default() };
    let slow = "import time\ndef slow() -> int:\n    time.sleep(0.3)\n    return 1\n";
    let tools = Toolbox::with(&[("a", slow), ("b", slow)], settings, Arc::new(NoServices));
    let both = tokio::join!(tools.call("a.slow", &[]), tools.call("b.slow", &[]));
    assert_eq!(both, (Ok(Value::Int(1)), Ok(Value::Int(1))));
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_workers_at_once_leave_nothing_behind() {
    let names: Vec<String> = (0..20).map(|number| format!("w{number}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), PID)).collect();
    let settings = WorkerSettings { max_workers: 20, ..WorkerSettings::default() };
    let tools = Toolbox::with(&files, settings, Arc::new(NoServices));
    let calls: Vec<String> = names.iter().map(|name| format!("{name}.pid")).collect();
    let pids = futures_util::future::join_all(calls.iter().map(|name| tools.int(name))).await;
    assert_eq!(tools.source.live_workers(), 20);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    tools.source.shutdown().await;
    eventually("the end of all", || !pids.iter().any(|pid| is_alive(*pid))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_is_read_again_and_gets_a_new_worker() {
    let tools = Toolbox::new(&[("a", "def f() -> int:\n    return 1\n")]);
    assert_eq!(tools.int("a.f").await, 1);
    let generation = tools.source.generation();
    // Same size, within the same second: neither time stamps of bytecode nor sizes may hide the change.
    for number in 2..6 {
        tools.put("a", &format!("def f() -> int:\n    return {number}\n"));
        assert_eq!(tools.int("a.f").await, number);
    }
    assert!(tools.source.generation() > generation);
    assert_eq!(tools.source.live_workers(), 1);
    tools.put("a", "def g() -> int:\n    return 7\n");
    tools.source.refresh();
    assert_eq!(tools.int("a.g").await, 7);
    tools.put("a", "def g(:\n");
    tools.source.refresh();
    assert_eq!(tools.source.health().len(), 1);
    assert_eq!(tools.int("a.g").await, 7, "a broken edit keeps the last good worker");
    tools.put("a", "def g() -> int:\n    return 8\n");
    tools.source.refresh();
    assert_eq!(tools.int("a.g").await, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_cannot_be_imported_keeps_the_last_good_worker() {
    let good = "import helper\ndef f() -> int:\n    return helper.number()\n";
    let tools = Toolbox::new(&[("a", good)]);
    let helper = |text: &str| {
        std::fs::write(tools.folder.path().join("tools/a/helper.py"), text).unwrap();
        tools.source.refresh();
    };
    helper("def number():\n    return 1\n");
    assert_eq!(tools.int("a.f").await, 1);
    for broken in ["def number():\n    return 1 +\n", "import nothing_of_this_name\n", "raise SystemExit(3)\n"] {
        helper(broken);
        assert_eq!(tools.int("a.f").await, 1, "{broken}");
        assert_eq!(tools.int("a.f").await, 1, "{broken}");
        let notes = tools.source.health();
        assert!(notes.len() == 1 && notes[0].message.ends_with("the last good version is used"), "{notes:?}");
        assert_eq!(tools.source.live_workers(), 1);
    }
    // A function that the last good version lacks fails with the real reason.
    tools.put("a", "import helper\ndef f() -> int:\n    return 1\ndef g() -> int:\n    return 2\n");
    tools.source.refresh();
    assert!(tools.call("a.g", &[]).await.unwrap_err().message.contains("could not be imported"));
    helper("def number():\n    return 3\n");
    tools.put("a", good);
    tools.source.refresh();
    assert_eq!(tools.source.health(), [], "what was fixed is fine before the next call too");
    assert_eq!(tools.int("a.f").await, 3);
    assert_eq!(tools.source.live_workers(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_takes_too_long_is_given_up() {
    let settings = WorkerSettings { startup_timeout: Duration::from_millis(1500), ..WorkerSettings::default() };
    let tools =
        Toolbox::with(&[("a", "import time\ntime.sleep(3600)\ndef f(): ...\n")], settings, Arc::new(NoServices));
    assert_eq!(tools.call("a.f", &[]).await.unwrap_err().kind, ErrorKind::Timeout);
    eventually("the end of the start", || tools.source.live_workers() == 0).await;
}

/// A `uv` that blocks forever on its first run and works after that, and the file where it writes its pid.
fn slow_uv(folder: &Path) -> (PathBuf, PathBuf) {
    let (uv, pid) = (folder.join("uv"), folder.join("pid"));
    let script = format!(
        "#!/bin/sh\nif [ -e {0} ]; then exec uv \"$@\"; fi\necho $$ > {0}.part && mv {0}.part {0}\nexec sleep 3600\n",
        pid.display()
    );
    let source = folder.join("script");
    std::fs::write(&source, script).unwrap();
    // Another process writes the program: a file that this process, or a child another test has just forked, has open
    // for writing cannot be executed.
    let copied = std::process::Command::new("install").args(["-m", "755"]).args([&source, &uv]).status();
    assert!(copied.unwrap().success());
    (uv, pid)
}

fn pid_in(path: &Path) -> i64 {
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_ends_with_the_server_and_outlives_its_caller() {
    let folder = tempfile::tempdir().unwrap();
    let (uv, pid) = slow_uv(folder.path());
    let settings = WorkerSettings { uv, ..WorkerSettings::default() };
    let tools = Toolbox::with(&[("s", SIX)], settings, Arc::new(NoServices));
    let ctx = tools.context();
    let (call, ()) = tokio::join!(tools.call_in("s.pid", &[], &ctx), async {
        eventually("the start of uv", || pid.exists()).await;
        ctx.cancel.cancel();
    });
    assert_eq!(call.unwrap_err().kind, ErrorKind::Cancelled);
    let uv = pid_in(&pid);
    assert!(is_alive(uv), "the next caller need not begin anew");
    tools.source.shutdown().await;
    eventually("the end of uv", || !is_alive(uv)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uv_that_is_killed_is_an_error_and_the_next_call_tries_again() {
    let folder = tempfile::tempdir().unwrap();
    let (uv, pid) = slow_uv(folder.path());
    let settings = WorkerSettings { uv, ..WorkerSettings::default() };
    let tools = Toolbox::with(&[("s", SIX)], settings, Arc::new(NoServices));
    let (killed, ()) = tokio::join!(tools.call("s.pid", &[]), async {
        eventually("the start of uv", || pid.exists()).await;
        let pid = pid_in(&pid) as i32;
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL)
            .unwrap();
    });
    assert_eq!(killed.unwrap_err().kind, ErrorKind::Unavailable);
    tools.int("s.pid").await;
}

/// Where a copy of this test program, acting as the server to be killed, writes the pids of its workers.
const SERVER_REPORT: &str = "ONETOOL_TEST_SERVER_REPORT";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_leaves_nothing_behind() {
    let name = "life::a_server_that_is_killed_leaves_nothing_behind";
    if let Ok(report) = std::env::var(SERVER_REPORT) {
        return serve_until_killed(PathBuf::from(report)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let mut server = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(SERVER_REPORT, &report)
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    eventually("the report of the server", || report.exists()).await;
    let pids: Vec<i64> =
        std::fs::read_to_string(&report).unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.len() == 3 && pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
    server.kill().await.unwrap();
    eventually("the end of all its processes", || !pids.iter().any(|pid| is_alive(*pid))).await;
}

/// Starts a worker with a child, and a `uv` that blocks forever.
async fn serve_until_killed(report: PathBuf) {
    let folder = report.parent().unwrap().to_owned();
    let source = "import os, subprocess\ndef pids() -> list:\n    return [os.getpid(), subprocess.Popen(['sleep', '3600']).pid]\n";
    let tools = Toolbox::new(&[("a", source)]);
    let Ok(Value::List(mut pids)) = tools.call("a.pids", &[]).await else { panic!("no pids") };
    let (uv, slow) = slow_uv(&folder);
    let other = Toolbox::with(&[("s", SIX)], WorkerSettings { uv, ..WorkerSettings::default() }, Arc::new(NoServices));
    let installing = other.call("s.pid", &[]);
    let reporting = async {
        eventually("the start of uv", || slow.exists()).await;
        pids.push(Value::Int(pid_in(&slow)));
        let text: Vec<String> = pids.iter().map(Value::repr).collect();
        std::fs::write(report.with_extension("part"), text.join(" ")).unwrap();
        std::fs::rename(report.with_extension("part"), &report).unwrap();
        std::future::pending::<()>().await;
    };
    let _ = tokio::join!(installing, reporting);
}
