//! Programs that try to leave the sandbox: each is an error of its own run, and the engine goes on.

#![cfg(target_os = "linux")]

mod support {
    pub(crate) mod toolbox;
}

use std::time::Duration;

use onetool_sandbox::{CPython, CPythonSettings, Execution, Failure, Limits, Program};
use onetool_sdk::Value;
use support::toolbox::Toolbox;
use tokio_util::sync::CancellationToken;

async fn run_in(engine: &CPython, code: &str) -> Execution {
    let program = Program { code: code.to_owned(), script_name: "run.py".to_owned(), ..Program::default() };
    let limits = Limits { timeout: Duration::from_secs(10), ..Limits::default() };
    engine.execute(&program, &limits, Toolbox::shared(), CancellationToken::new()).await
}

fn engine() -> CPython {
    CPython::new(CPythonSettings {
        launcher: Some(env!("CARGO_BIN_EXE_onetool-sandbox-child").into()),
        ..Default::default()
    })
}

/// Code, and the exception that ends it.
const REFUSED: &[(&str, &[&str])] = &[
    ("open('/etc/passwd').read()", &["PermissionError"]),
    ("open('/etc/hostname').read()", &["PermissionError"]),
    ("import os\nos.listdir('/')", &["PermissionError"]),
    ("import os\nos.listdir('/tmp')", &["PermissionError"]),
    ("open('/tmp/onetool-escape', 'w')", &["PermissionError"]),
    ("open('/dev/null', 'w')", &["PermissionError"]),
    ("import os\nos.open('/tmp/onetool-escape', os.O_CREAT | os.O_RDWR)", &["PermissionError"]),
    ("import tempfile\ntempfile.TemporaryFile()", &["PermissionError", "FileNotFoundError"]),
    ("import os\nos.mkdir('/tmp/onetool-escape')", &["PermissionError"]),
    ("import os\nos.unlink('/tmp/x')", &["PermissionError"]),
    ("import os\nos.chdir('/tmp')", &["PermissionError"]),
    ("import os\nos.memfd_create('x')", &["PermissionError"]),
    ("import socket\nsocket.socket()", &["PermissionError"]),
    ("import socket\nsocket.create_connection(('127.0.0.1', 80), 1)", &["PermissionError"]),
    ("import socket\nsocket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)", &["OSError"]),
    ("import urllib.request\nurllib.request.urlopen('http://127.0.0.1/')", &["URLError"]),
    ("import subprocess\nsubprocess.run(['/bin/true'])", &["PermissionError"]),
    ("import subprocess, sys\nsubprocess.run([sys.executable, '-c', '1'])", &["PermissionError"]),
    ("import os\nos.system('true') and 1 / 0", &["PermissionError", "ZeroDivisionError"]),
    ("import os\nos.fork()", &["PermissionError"]),
    ("import os, sys\nos.execv(sys.executable, ['python'])", &["PermissionError"]),
    ("import os\nos.posix_spawn('/bin/true', ['true'], {})", &["PermissionError"]),
    ("import multiprocessing\np = multiprocessing.Process(target=print)\np.start()", &["PermissionError", "OSError"]),
    ("import ctypes", &["ModuleNotFoundError"]),
    ("import os, signal\nos.kill(os.getppid(), signal.SIGTERM)", &["PermissionError"]),
    ("import os, signal\nos.kill(1, 0)", &["PermissionError"]),
    ("import os, signal\nos.killpg(0, signal.SIGTERM)", &["PermissionError"]),
    ("import os\nopen(f'/proc/{os.getppid()}/environ').read()", &["PermissionError"]),
    ("open('/proc/self/maps').read()", &["PermissionError"]),
    ("import fcntl, os\nfcntl.fcntl(1, fcntl.F_SETOWN, os.getppid())", &["OSError"]),
    ("import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)", &["itimer_error"]),
    ("import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)", &["PermissionError"]),
    ("import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))", &["ValueError"]),
    ("import resource, os\nresource.prlimit(os.getppid(), resource.RLIMIT_CPU)", &["OSError", "PermissionError"]),
    ("import os\nos.setsid()", &["PermissionError"]),
    ("import os\nos.environ['PATH']", &["KeyError"]),
];

#[tokio::test]
async fn what_is_outside_is_refused() {
    let engine = engine();
    for (code, expected) in REFUSED {
        match run_in(&engine, code).await.result {
            Err(Failure::Raised { exception, .. }) if expected.contains(&exception.as_str()) => {}
            other => panic!("{code}\n{other:?}"),
        }
    }
    assert!(!std::path::Path::new("/tmp/onetool-escape").exists());
    assert_eq!(run_in(&engine, "1 + 1").await.result, Ok(Value::Int(2)));
}

#[tokio::test]
async fn a_child_that_ends_itself_takes_only_itself() {
    let engine = engine();
    for code in [
        "import os\nos._exit(3)",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        "import os\nos.abort()",
        "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n    def __repr__(self): return repr(self)\ndef f(x): return f(repr(A()))\nf(1)",
        "import os\nos.closerange(0, 100)\nwhile True: pass",
    ] {
        let result = run_in(&engine, code).await.result;
        assert!(
            matches!(result, Err(Failure::Crashed(_) | Failure::Memory | Failure::Raised { .. })),
            "{code}\n{result:?}"
        );
    }
    assert_eq!(run_in(&engine, "1 + 1").await.result, Ok(Value::Int(2)));
}

#[tokio::test]
async fn a_flood_of_threads_ends_in_an_error() {
    let code = "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()";
    let result = run_in(&engine(), code).await.result;
    assert!(
        matches!(&result, Err(Failure::Raised { exception, .. }) if exception == "RuntimeError")
            || matches!(result, Err(Failure::Memory)),
        "{result:?}"
    );
}

#[tokio::test]
async fn ignored_signals_do_not_outlive_the_deadline() {
    let code = "import signal\nfor s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU):\n    signal.signal(s, signal.SIG_IGN)\nwhile True: pass";
    let program = Program { code: code.to_owned(), script_name: "run.py".to_owned(), ..Program::default() };
    let limits = Limits { timeout: Duration::from_millis(300), ..Limits::default() };
    let execution = engine().execute(&program, &limits, Toolbox::shared(), CancellationToken::new()).await;
    assert_eq!(execution.result, Err(Failure::Timeout(limits.timeout)));
}

/// The descriptors of the protocol can be found; they carry no more authority than the program has.
#[tokio::test]
async fn talking_to_the_host_directly_gains_nothing() {
    let engine = engine();
    let find = "import gc\nchannel = [o for o in gc.get_objects() if type(o).__name__ == 'Channel'][0]\n";
    let forged = format!("{find}channel.send(lambda w: w.raw('{{\"shell\":{{\"id\":1}}}}'))\nwhile True: pass");
    let result = run_in(&engine, &forged).await.result;
    assert!(matches!(result, Err(Failure::Crashed(_))), "{result:?}");
    let garbage = "import os\nfor fd in range(3, 20):\n    try:\n        os.write(fd, b'\\xff\\n')\n    except OSError:\n        pass\nwhile True: pass";
    let result = run_in(&engine, garbage).await.result;
    assert!(matches!(result, Err(Failure::Crashed(_))), "{result:?}");
    let called = format!(
        "{find}channel.request(lambda w, n: w.raw('{{\"call\":{{\"id\":%d,\"pack\":\"pack\",\"function\":\"show\",\"args\":[],\"kwargs\":[]}}}}' % n))['value']"
    );
    let execution = run_in(&engine, &called).await;
    assert_eq!((execution.result, execution.calls), (Ok(Value::Str("pack.show()".into())), 1));
}

#[tokio::test]
async fn nesting_that_breaks_parsers_breaks_only_the_run() {
    let engine = engine();
    for code in [
        "(".repeat(50_000),
        "1+".repeat(50_000) + "1",
        "a".to_owned() + &".b".repeat(50_000),
        "-".repeat(100_000) + "1",
        "[".repeat(5_000) + &"]".repeat(5_000),
    ] {
        let result = run_in(&engine, &code).await.result;
        assert!(result.is_err() || result == Ok(Value::Int(50_001)) || result == Ok(Value::Int(1)), "{result:?}");
    }
    assert_eq!(run_in(&engine, "1 + 1").await.result, Ok(Value::Int(2)));
}

/// Opting in to less confinement gives up nothing where the system can confine.
#[tokio::test]
async fn a_user_who_opts_in_is_still_confined_where_it_is_possible() {
    let launcher = Some(env!("CARGO_BIN_EXE_onetool-sandbox-child").into());
    let engine = CPython::new(CPythonSettings { launcher, allow_unconfined: true, ..Default::default() });
    assert_eq!(run_in(&engine, "1 + 1").await.result, Ok(Value::Int(2)));
    let result = run_in(&engine, "open('/etc/passwd').read()").await.result;
    assert!(matches!(&result, Err(Failure::Raised { exception, .. }) if exception == "PermissionError"), "{result:?}");
}
