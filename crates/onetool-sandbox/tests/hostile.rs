//! Programs that try to leave the sandbox: each causes an error in its own run only, and the engine continues.

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
    let limits = Limits { timeout: Duration::from_mins(1), ..Limits::default() };
    engine.execute(&program, &limits, Toolbox::shared(), CancellationToken::new()).await
}

fn engine() -> CPython {
    CPython::new(CPythonSettings {
        launcher: Some(env!("CARGO_BIN_EXE_onetool-sandbox-child").into()),
        ..Default::default()
    })
}

/// One engine that forks its children, and one that starts them.
async fn engines() -> [CPython; 2] {
    let forking = engine();
    forking.warm_up().await;
    [forking, engine()]
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
    ("import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)", &["PermissionError"]),
    ("import _signal\n_signal.setitimer(_signal.ITIMER_REAL, 0)", &["itimer_error"]),
    ("import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)", &["PermissionError"]),
    ("import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))", &["ValueError"]),
    ("import resource, os\nresource.prlimit(os.getppid(), resource.RLIMIT_CPU)", &["OSError", "PermissionError"]),
    ("import os\nos.setsid()", &["PermissionError"]),
    ("import os\nos.environ['PATH']", &["KeyError"]),
    ("import os\nos.kill(os.getpid() + 1, 9)", &["PermissionError"]),
    ("import os\nos.kill(-1, 9)", &["PermissionError"]),
    ("import os\nos.pidfd_open(os.getppid())", &["PermissionError"]),
    ("import os\nos.setpgid(0, os.getppid())", &["PermissionError"]),
    ("import os\nos.waitpid(-1, os.WNOHANG)", &["PermissionError"]),
    ("import os\nos.waitid(os.P_ALL, 0, os.WEXITED)", &["PermissionError"]),
    ("import os\nos.forkpty()", &["PermissionError", "OSError"]),
    ("import os\nos.listdir('/proc/self/fd')", &["PermissionError"]),
    ("open('/proc/self/mem', 'rb')", &["PermissionError"]),
    ("import os\nos.listdir('/dev/shm')", &["PermissionError"]),
    ("import os\nos.readlink('/proc/self/exe')", &["PermissionError"]),
    (
        "from multiprocessing import shared_memory\nshared_memory.SharedMemory(create=True, size=16)",
        &["PermissionError", "OSError"],
    ),
    ("import socket, os\nsocket.socket(fileno=os.dup(3)).recvmsg(1)", &["PermissionError", "OSError"]),
    ("import socket\na, b = socket.socketpair()\na.sendmsg([b'x'])", &["PermissionError"]),
    ("import socket\na, b = socket.socketpair()\nsocket.send_fds(a, [b'x'], [0])", &["PermissionError"]),
];

#[tokio::test]
async fn what_is_outside_is_refused() {
    // The Python layer above the kernel only explains or serves files; without it the kernel refuses.
    let without_files = "for _place in type(pack).__getattr__.__globals__['_files'].replaced:\n    setattr(*_place)\n";
    let kernel = format!("type(pack).__getattr__.__globals__['_REFUSED_EVENTS'].clear()\n{without_files}");
    for (engine, before) in engines().await.into_iter().zip([kernel.as_str(), without_files]) {
        for (code, expected) in REFUSED {
            match run_in(&engine, &format!("{before}{code}")).await.result {
                Err(Failure::Raised { exception, .. }) if expected.contains(&exception.as_str()) => {}
                other => panic!("{code}\n{other:?}"),
            }
        }
        assert!(!std::path::Path::new("/tmp/onetool-escape").exists());
        assert_eq!(run_in(&engine, "1 + 1").await.result, Ok(Value::Int(2)));
    }
}

/// Code that shows what a forked child inherits from its zygote, and the expected value.
const INHERITED: &[(&str, &str)] = &[
    // Nothing but its own pipes and an empty input.
    (
        "import os, stat\nopen_ = []\nfor fd in range(4096):\n    try:\n        open_.append((fd, stat.S_ISSOCK(os.fstat(fd).st_mode)))\n    except OSError:\n        pass\n[fd for fd, _ in open_], any(s for _, s in open_)",
        "([0, 1, 2, 3, 4], False)",
    ),
    ("import os\nos.read(0, 10)", "b''"),
    ("import os\ndict(os.environ)", "{}"),
    ("import os\nos.getpgid(0) == os.getpid()", "True"),
    ("import signal\nsignal.getsignal(signal.SIGCHLD) == signal.SIG_DFL, signal.set_wakeup_fd(-1)", "(True, -1)"),
    (
        "import gc\ngc.unfreeze()\ngc.isenabled(), [o for o in gc.get_objects() if type(o).__name__ == '_Zygote']",
        "(True, [])",
    ),
    ("import threading\nthreading.active_count()", "1"),
    (
        "import resource\nresource.getrlimit(resource.RLIMIT_FSIZE), resource.getrlimit(resource.RLIMIT_CORE)",
        "((0, 0), (0, 0))",
    ),
    ("import sys\nsys.argv, 'ctypes' in sys.modules and sys.modules['ctypes']", "(['run.py'], None)"),
];

#[tokio::test]
async fn a_forked_child_has_nothing_of_its_zygote() {
    let [engine, _] = engines().await;
    for (code, expected) in INHERITED {
        let execution = run_in(&engine, code).await;
        assert_eq!(execution.result.map(|value| value.repr()), Ok((*expected).to_owned()), "{code}");
    }
}

#[tokio::test]
async fn forked_children_share_no_random_numbers_and_no_state() {
    let [engine, _] = engines().await;
    let code = "import random, uuid, secrets, os\n[random.random(), random.randbytes(8), str(uuid.uuid4()), secrets.token_hex(8), os.urandom(8), random.Random().random()]";
    let (first, second) = (run_in(&engine, code).await.result.unwrap(), run_in(&engine, code).await.result.unwrap());
    let (Value::List(first), Value::List(second)) = (first, second) else { panic!("not lists") };
    for (one, other) in first.iter().zip(&second) {
        assert_ne!(one, other);
    }
    run_in(&engine, "import sys, json, builtins\nsys.modules['leak'] = 1\njson.loads = None\nbuiltins.leak = 2\nsys.path.append('/leak')").await;
    let code =
        "import sys, json\n['leak' in sys.modules, json.loads('1'), '/leak' in sys.path, 'leak' in dir(__builtins__)]";
    assert_eq!(run_in(&engine, code).await.result.unwrap().repr(), "[False, 1, False, False]");
}

/// Children of one zygote run concurrently, and cannot reach each other.
#[tokio::test]
async fn siblings_are_out_of_reach() {
    let [engine, _] = engines().await;
    let toolbox = Toolbox::shared();
    let cancel = CancellationToken::new();
    let limits = Limits { timeout: Duration::from_secs(20), ..Limits::default() };
    let waiting = Program {
        code: "import os\npack.tell(os.getpid())\npack.never()".to_owned(),
        script_name: "run.py".to_owned(),
        ..Program::default()
    };
    let first = engine.execute(&waiting, &limits, toolbox.clone(), cancel.clone());
    let second = async {
        let sibling = toolbox.told().await.repr();
        for code in [
            format!("import os\nos.kill({sibling}, 9)"),
            format!("import os\nos.kill({sibling}, 0)"),
            format!("import os\nos.killpg({sibling}, 9)"),
            format!("import os\nos.pidfd_open({sibling})"),
            format!("open('/proc/{sibling}/mem', 'rb')"),
            format!("import os\nos.listdir('/proc/{sibling}/fd')"),
            format!("import os\nos.sched_setaffinity({sibling}, [0])"),
            format!("import resource\nresource.prlimit({sibling}, resource.RLIMIT_CPU)"),
        ] {
            let result = run_in(&engine, &code).await.result;
            assert!(
                matches!(&result, Err(Failure::Raised { exception, .. }) if ["PermissionError", "OSError"].contains(&exception.as_str())),
                "{code}\n{result:?}"
            );
        }
        cancel.cancel();
    };
    let (first, ()) = tokio::join!(first, second);
    assert_eq!(first.result, Err(Failure::Cancelled));
}

#[tokio::test]
async fn a_zygote_that_died_is_replaced_and_takes_its_children_along() {
    let [engine, _] = engines().await;
    let parent = run_in(&engine, "import os\nos.getppid()").await.result.unwrap().repr();
    let toolbox = Toolbox::shared();
    let limits = Limits::default();
    let waiting = Program {
        code: "pack.started()\npack.never()".to_owned(),
        script_name: "run.py".to_owned(),
        ..Program::default()
    };
    let running = engine.execute(&waiting, &limits, toolbox.clone(), CancellationToken::new());
    let kill = async {
        toolbox.started.notified().await;
        let zygote = rustix::process::Pid::from_raw(parent.parse().unwrap()).unwrap();
        rustix::process::kill_process(zygote, rustix::process::Signal::KILL).unwrap();
    };
    let (execution, ()) = tokio::join!(running, kill);
    assert!(matches!(execution.result, Err(Failure::Crashed(_))), "{:?}", execution.result);
    let next = run_in(&engine, "import os\nos.getppid()").await.result.unwrap().repr();
    assert_ne!(next, parent);
    assert_eq!(run_in(&engine, "import os\nos.getppid()").await.result.unwrap().repr(), next);
}

/// Finds the channel of the protocol, and removes its limit.
const FORGE: &str = "channel = type(pack).__getattr__.__globals__['_channel']\nchannel.limit = 1 << 40\n";

#[tokio::test]
async fn forged_messages_cost_the_run_alone() {
    let [engine, _] = engines().await;
    let forged = |head: &str, item: &str, count: usize, tail: &str| {
        format!(
            "{FORGE}def write(w):\n    w.raw('{head}')\n    for _ in range({count}):\n        w.raw('{item}' * 100_000)\n    w.raw('{tail}')\nchannel.send(write)\nwhile True: pass"
        )
    };
    for (what, code) in [
        ("100 million digits", forged(r#"{"done":{"value":{"$ot":"int","v":""#, "9", 1000, r#""},"read_back":[]}}"#)),
        ("60 MB of zeros", forged(r#"{"done":{"value":[0"#, ",0", 300, r#"],"read_back":[]}}"#)),
        ("250 MB of zeros", forged(r#"{"done":{"value":[0"#, ",0", 1250, r#"],"read_back":[]}}"#)),
        (
            "a list in a call",
            forged(r#"{"call":{"id":1,"pack":"pack","function":"echo","args":[0"#, ",0", 600, r#"],"kwargs":[]}}"#),
        ),
        ("a million names", forged(r#"{"lookup":{"id":1,"names":["a""#, r#","a""#, 10, "]}}")),
        (
            "names that never end",
            format!(
                "{FORGE}while True:\n    channel.request(lambda w, n: w.raw('{{\"lookup\":{{\"id\":%d,\"names\":[%s]}}}}' % (n, ','.join(['\"a\"'] * 1000))))"
            ),
        ),
        ("a line without end", forged("", "[", 4000, "")),
        ("no forging at all", "import zlib\n[0] * 20_000_000".to_owned()),
        ("no forging, in a call", "pack.echo([0] * 20_000_000)".to_owned()),
    ] {
        let result = run_in(&engine, &code).await.result;
        assert!(matches!(result, Err(Failure::TooLarge(_))), "{what}: {result:?}");
    }
    let result = run_in(&engine, "pack.show(1 << 200_000_000)").await.result;
    assert_eq!(result, Ok(Value::Str("pack.show(<int with 200000001 bits>)".into())));
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
    let find = "channel = type(pack).__getattr__.__globals__['_channel']\n";
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
