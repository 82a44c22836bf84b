//! The full Python engine, with a real interpreter behind real walls.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support {
    pub(crate) mod toolbox;
}

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use onetool_sandbox::{
    CPython, CPythonSettings, CallTarget, Execution, Failure, Frame, Host, Limits, Lookup, Program, REPEATING,
};
use onetool_sdk::{Arguments, Part, ToolError, Value};
use support::toolbox::Toolbox;
use tokio_util::sync::CancellationToken;

fn engine() -> CPython {
    CPython::new(settings())
}

fn settings() -> CPythonSettings {
    CPythonSettings { launcher: Some(env!("CARGO_BIN_EXE_onetool-sandbox-child").into()), ..Default::default() }
}

fn program(code: &str) -> Program {
    Program {
        code: code.to_owned(),
        script_name: "run.py".to_owned(),
        read_back: vec!["__format__".to_owned(), "missing".to_owned()],
        ..Program::default()
    }
}

async fn run_in(engine: &CPython, code: &str, limits: &Limits) -> Execution {
    engine.warm_up().await;
    engine.execute(&program(code), limits, Toolbox::shared(), CancellationToken::new()).await
}

async fn run(code: &str) -> Execution {
    run_in(&engine(), code, &Limits::default()).await
}

async fn value(code: &str) -> Value {
    let execution = run(code).await;
    execution.result.unwrap_or_else(|failure| panic!("{code}\n{failure:?}\n{}", execution.printed))
}

async fn raised(code: &str) -> (String, String, Vec<Frame>) {
    match run(code).await.result {
        Err(Failure::Raised { exception, message, frames }) => (exception, message, frames),
        other => panic!("{code}\n{other:?}"),
    }
}

fn frame(line: u32, function: Option<&str>) -> Frame {
    Frame { line, function: function.map(str::to_owned) }
}

fn ints(items: impl IntoIterator<Item = i64>) -> Value {
    Value::List(items.into_iter().map(Value::Int).collect())
}

#[tokio::test]
async fn the_last_expression_is_the_value() {
    let engine = engine();
    for (code, expected) in [
        ("1 + 1", Value::Int(2)),
        ("x = 1", Value::None),
        ("x = 5\nx * 2", Value::Int(10)),
        ("for i in range(3):\n    i", Value::None),
        ("return 7", Value::Int(7)),
        ("if True:\n    return 8\n9", Value::Int(8)),
        ("", Value::None),
        ("# only a comment", Value::None),
        ("'a string'", Value::Str("a string".into())),
        ("def g():\n    yield 1\n    yield 2\nlist(g())", ints([1, 2])),
        ("class A:\n    def __len__(self):\n        return 3\nclass B(A): pass\nlen(B())", Value::Int(3)),
        ("match [1, 2]:\n    case [a, b]:\n        c = a + b\nc", Value::Int(3)),
        ("import re\nre.sub('a', lambda m: 'b', 'aa')", Value::Str("bb".into())),
    ] {
        let execution = run_in(&engine, code, &Limits::default()).await;
        assert_eq!(execution.result, Ok(expected), "{code}");
        assert_eq!(execution.printed, "", "{code}");
    }
}

#[tokio::test]
async fn every_kind_of_value_crosses() {
    let list = value(
        "import datetime, pathlib, collections, dataclasses, decimal\n\
         @dataclasses.dataclass\nclass P:\n    x: int\n\
         N = collections.namedtuple('N', 'a b')\n\
         [None, True, -5, 10**30, 1.5, float('inf'), 'é\\ud800', b'\\x00\\xff', (1,), {1}, frozenset(), {'a': 1}, {1: 'b'},\n\
          datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, 4), datetime.timedelta(seconds=1),\n\
          pathlib.Path('/a'), P(1), N(1, 2), ValueError('v'), range(2), decimal.Decimal('1.10'), object]",
    )
    .await;
    let Value::List(items) = list else { panic!("{list:?}") };
    let texts: Vec<String> = items.iter().map(Value::repr).collect();
    assert_eq!(
        texts,
        [
            "None",
            "True",
            "-5",
            "1000000000000000000000000000000",
            "1.5",
            "inf",
            "'é\u{fffd}'",
            "b'\\x00\\xff'",
            "(1,)",
            "{1}",
            "frozenset()",
            "{'a': 1}",
            "{1: 'b'}",
            "datetime.date(2024, 2, 29)",
            "datetime.datetime(2024, 2, 29, 1, 2, 3, 4)",
            "datetime.timedelta(seconds=1)",
            "PosixPath('/a')",
            "P(x=1)",
            "N(a=1, b=2)",
            "ValueError('v')",
            "[0, 1]",
            "'1.10'",
            "<class 'object'>",
        ]
    );
}

#[tokio::test]
async fn values_come_back_from_the_host_as_they_went() {
    let sent = "[1, 2.5, 'x', b'1', (1, {2}), {'$ot': 1}, None, 10**20]";
    assert_eq!(value(&format!("pack.echo({sent}) == {sent}")).await, Value::Bool(true));
    assert_eq!(
        value("picture = pack.picture()\n[type(picture).__name__, pack.echo(picture), picture]").await,
        Value::List(vec![
            Value::Str("Content".into()),
            Value::Part(Part::Image { media_type: "image/png".into(), data: vec![1, 2, 3] }),
            Value::Part(Part::Image { media_type: "image/png".into(), data: vec![1, 2, 3] }),
        ])
    );
    assert_eq!(
        value("r = pack.record()\n[r.name, r['name'], type(r).__name__, pack.echo(r) == r]").await.repr(),
        "['n', 'n', 'Point', True]"
    );
    assert_eq!(
        value("p = pack.home / 'src'\n[type(p).__name__, p, isinstance(p, __import__('pathlib').Path)]").await.repr(),
        "['ProjectPath', PosixPath('/home/project/src'), True]"
    );
}

#[tokio::test]
async fn cycles_depth_and_hostile_objects_become_text() {
    assert_eq!(value("a = [1]\na.append(a)\na").await.repr(), "[1, [...]]");
    assert_eq!(value("d = {}\nd['d'] = d\nd").await.repr(), "{'d': {...}}");
    assert_eq!(value("[[[]]]").await.repr(), "[[[]]]");
    let deep = value("a = []\nfor _ in range(500):\n    a = [a]\na").await.repr();
    assert!(deep.contains("nested too deeply"), "{deep}");
    let bad = value("class Bad:\n    def __repr__(self):\n        raise ValueError('no')\nBad()").await.repr();
    assert!(bad.contains("whose repr raised ValueError"), "{bad}");
    assert_eq!(value("10 ** 20_000").await.repr().len(), 20_001);
    assert_eq!(value("1 << 2_000_000").await.repr(), "<int with 2000001 bits>");
    assert_eq!(value("range(10 ** 10)").await.repr(), "range(0, 10000000000)");
}

#[tokio::test]
async fn objects_are_their_attributes_unless_they_have_a_text() {
    let class = "class Base: pass\nclass A(Base):\n    def __init__(self):\n        self.x = [1]\n";
    assert_eq!(value(&format!("{class}A()")).await.repr(), "A(x=[1])");
    assert_eq!(value(&format!("{class}a = A()\na.a = a\na")).await.repr(), "A(x=[1], a=...)");
    assert_eq!(value(&format!("{class}    def __str__(self):\n        return 'an A'\nA()")).await.repr(), "an A");
    assert_eq!(value("import enum\nclass C(enum.Enum):\n    A = 1\nC.A").await.repr(), "1");
}

#[tokio::test]
async fn endless_recursion_ends_soon_whatever_limit_the_program_sets() {
    let engine = engine();
    for code in [
        "def f(): return f()\nf()",
        "def f(): return sorted([1], key=lambda x: f())\nf()",
        "class A:\n    def __getattr__(self, name): return getattr(self, name + 'x')\nA().a",
    ] {
        let code = format!("import sys\nsys.setrecursionlimit(10**9)\n{code}");
        match run_in(&engine, &code, &Limits::default()).await.result {
            Err(Failure::Raised { exception, .. }) => assert_eq!(exception, "RecursionError", "{code}"),
            other => panic!("{code}\n{other:?}"),
        }
    }
}

#[tokio::test]
async fn warnings_are_not_printed() {
    let execution = run("import warnings, re\nwarnings.warn('old')\nre.findall('[[:a:]]', 'a')").await;
    assert_eq!(execution.printed, "");
}

#[tokio::test]
async fn tools_are_called_with_all_arguments() {
    assert_eq!(value("pack.show(1, *[2], c='x', **{'d': [3]})").await.str(), "pack.show(1, 2, c='x', d=[3])");
    assert_eq!(value("helper(1)").await.str(), "helper(1)");
    assert_eq!(value("f = pack.show\nlist(map(f, [1, 2]))[1]").await.str(), "pack.show(2)");
    assert_eq!(value("def g():\n    return pack.show()\ng()").await.str(), "pack.show()");
    assert_eq!(value("eval('pack.show(5)')").await.str(), "pack.show(5)");
    assert_eq!(value("answer + 1").await, Value::Int(43));
    let execution = run("for i in range(10):\n    pack.show(i)").await;
    assert_eq!(execution.calls, 10);
}

#[tokio::test]
async fn what_the_host_refuses_is_raised() {
    let args = "try:\n    pack.fail('KeyError', repr('k'))\nexcept KeyError as e:\n    r = e.args[0]\nr";
    assert_eq!(value(args).await.str(), "k");
    let (exception, message, frames) = raised("x = 1\npack.fail('KeyError', \"'k'\")").await;
    assert_eq!((exception.as_str(), message.as_str()), ("KeyError", "'k'"));
    assert_eq!(frames, [frame(2, None)]);
    let (exception, message, _) = raised("pack.fail('UpstreamBroke', 'it did')").await;
    assert_eq!((exception.as_str(), message.as_str()), ("UpstreamBroke", "it did"));
    assert_eq!(
        value("try:\n    pack.fail('ValueError', 'v')\nexcept ValueError as e:\n    r = str(e)\nr").await.str(),
        "v"
    );
    let (exception, message, _) = raised("pack.nothing").await;
    assert_eq!(exception, "AttributeError");
    assert!(message.contains("nothing"), "{message}");
    let (exception, message, frames) = raised("def f():\n    return forbidden.x\nf()").await;
    assert_eq!((exception.as_str(), message.as_str()), ("NameError", "no pack 'forbidden', there is: pack"));
    assert_eq!(frames, [frame(3, None), frame(2, Some("f"))]);
    let (exception, message, _) = raised("unknown_name").await;
    assert_eq!((exception.as_str(), message.as_str()), ("NameError", "name 'unknown_name' is not defined"));
}

#[tokio::test]
async fn awaited_calls_run_at_once() {
    // `meet(n)` answers once n calls have arrived: sequential calls would never end.
    for code in [
        "import asyncio\nawait asyncio.gather(pack.meet(2), pack.meet(2))",
        "import asyncio\nawait asyncio.gather(*[pack.meet(2) for _ in range(2)])",
        "import asyncio\ntasks = [pack.meet(2) for _ in range(2)]\nawait asyncio.gather(*tasks)",
        "import asyncio\nts = []\nfor _ in range(2):\n    ts.append(pack.meet(2))\nawait asyncio.gather(*ts)",
        "import asyncio\na = asyncio.create_task(pack.meet(2))\nb = asyncio.create_task(pack.meet(2))\n[await a, await b]",
        "from asyncio import gather as g\nawait g(pack.meet(2), pack.meet(2))",
        "import asyncio\nasync def one():\n    return await pack.meet(2)\nasync def main():\n    return await asyncio.gather(one(), one())\nasyncio.run(main())",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as e:\n    r = list(e.map(pack.meet, [2, 2]))\nr",
        "import asyncio\nawait asyncio.gather(asyncio.to_thread(pack.meet, 2), pack.meet(2))",
    ] {
        let limits = Limits { timeout: Duration::from_secs(20), ..Limits::default() };
        let execution = run_in(&engine(), code, &limits).await;
        assert_eq!(execution.result, Ok(ints([2, 2])), "{code}\n{}", execution.printed);
    }
}

#[tokio::test]
async fn awaiting_works_without_an_event_loop_and_on_plain_values() {
    assert_eq!(value("await pack.echo(3)").await, Value::Int(3));
    assert_eq!(value("x = pack.echo(4)\nawait x").await, Value::Int(4));
    assert_eq!(value("async def f():\n    return await pack.echo(5)\nawait f()").await, Value::Int(5));
    assert_eq!(
        value("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 6\nawait f()").await,
        Value::Int(6)
    );
    let (exception, _, frames) =
        raised("import asyncio\nasync def f():\n    await pack.fail('OSError', 'o')\nawait f()").await;
    assert_eq!(exception, "OSError");
    assert_eq!(frames, [frame(4, None), frame(3, Some("f"))]);
}

#[tokio::test]
async fn errors_name_lines_of_the_users_text() {
    let (exception, message, frames) = raised("x = 1\ny = = 2").await;
    assert_eq!(exception, "SyntaxError");
    assert!(message.starts_with("invalid syntax; this is Python 3."), "{message}");
    assert_eq!(frames, [frame(2, None)]);
    let (exception, _, frames) = raised("import json\ndef f(t):\n    return json.loads(t)\nf('{')").await;
    assert_eq!(exception, "JSONDecodeError");
    assert_eq!(frames, [frame(4, None), frame(3, Some("f"))]);
    let (exception, _, frames) = raised("def f():\n    f()\nf()").await;
    assert_eq!(exception, "RecursionError");
    assert!(frames.len() <= 40 && frames[0] == frame(3, None), "{frames:?}");
    let (exception, message, _) = raised("import sys\nsys.exit(3)").await;
    assert_eq!((exception.as_str(), message.as_str()), ("SystemExit", "3"));
    for end in ["exit()", "import sys\nsys.exit(0)", "raise SystemExit"] {
        assert_eq!(value(end).await, Value::None, "{end}");
    }
    let (exception, message, _) = raised("input('name? ')").await;
    assert_eq!((exception.as_str(), message.as_str()), ("EOFError", "no input in a sandbox"));
    let (exception, message, _) = raised("class Mine(Exception): pass\nraise Mine('m')").await;
    assert_eq!((exception.as_str(), message.as_str()), ("Mine", "m"));
}

#[tokio::test]
async fn syntax_of_a_newer_python_names_it() {
    if engine_version().await >= (3, 12) {
        return;
    }
    for code in ["type X = int", "def first[T](items: list[T]) -> T: ...", "class Box[T]: ..."] {
        let (exception, message, _) = raised(code).await;
        assert_eq!(exception, "SyntaxError");
        assert!(message.contains("it needs Python 3.12; this is 3.1"), "{message}");
        assert!(message.contains("run.python: \"3.13\""), "{message}");
    }
}

async fn engine_version() -> (u32, u32) {
    let engine = engine();
    run_in(&engine, "1", &Limits::default()).await.result.unwrap();
    engine.version().unwrap()
}

#[tokio::test]
async fn printed_text_is_captured_and_capped() {
    let execution =
        run("import sys, os\nprint('a', 'b')\nsys.stderr.write('c\\n')\nos.write(1, b'd')\n__format__ = 'yml'\n1")
            .await;
    assert_eq!(execution.printed, "a b\nc\nd");
    assert_eq!(execution.read_back, [("__format__".to_owned(), Value::Str("yml".into()))]);
    assert!(!execution.printed_truncated);
    let limits = Limits { max_printed: 1000, ..Limits::default() };
    let execution = run_in(&engine(), "for i in range(200_000):\n    print('flood' * 4)\n'end'", &limits).await;
    assert_eq!(execution.result, Ok(Value::Str("end".into())));
    assert_eq!((execution.printed.len(), execution.printed_truncated), (1000, true));
    let execution = run("print('before')\n1 / 0").await;
    assert_eq!(execution.printed, "before\n");
}

#[tokio::test]
async fn limits_stop_a_program_and_the_engine_goes_on() {
    let engine = engine();
    let short = Limits { timeout: Duration::from_millis(500), ..Limits::default() };
    let execution = run_in(&engine, "print('on')\nwhile True: pass", &short).await;
    assert_eq!(execution.result, Err(Failure::Timeout(Duration::from_millis(500))));
    assert_eq!(execution.printed, "on\n");
    for code in ["import time\ntime.sleep(100)", "import re\nre.match('(a+)+$', 'a' * 50 + 'b')", "pack.never()"] {
        let execution = run_in(&engine, code, &short).await;
        assert_eq!(execution.result, Err(Failure::Timeout(Duration::from_millis(500))), "{code}");
    }
    for code in ["[0] * 10**10", "x = []\nwhile True:\n    x.append('a' * 1_000_000)", "'a' * (400 << 20)"] {
        assert_eq!(run_in(&engine, code, &Limits::default()).await.result, Err(Failure::Memory), "{code}");
    }
    let few = Limits { max_calls: 3, ..Limits::default() };
    let execution = run_in(&engine, "while True:\n    pack.show()", &few).await;
    assert_eq!((execution.result, execution.calls), (Err(Failure::Calls(3)), 3));
    let small = Limits { max_value_bytes: 1000, ..Limits::default() };
    for code in ["'x' * 5000", "pack.echo('x' * 5000)", "list(range(5000))"] {
        let result = run_in(&engine, code, &small).await.result;
        assert!(matches!(result, Err(Failure::TooLarge(_))), "{code}: {result:?}");
    }
    let result = run_in(&engine, "pack.long()", &small).await.result;
    assert!(matches!(&result, Err(Failure::Raised { exception, .. }) if exception == "ValueError"), "{result:?}");
    let short_source = Limits { max_source: 4, ..Limits::default() };
    let result = run_in(&engine, "1 + 1", &short_source).await.result;
    assert!(matches!(result, Err(Failure::TooLarge(_))), "{result:?}");
    assert_eq!(run_in(&engine, "1 + 1", &Limits::default()).await.result, Ok(Value::Int(2)));
}

#[tokio::test]
async fn a_large_value_crosses_within_the_memory_limit() {
    let Value::Str(text) = value("'é' * 50_000_000").await else { panic!("not text") };
    assert_eq!(text.len(), 100_000_000);
    let Value::List(items) = value("list(range(1_000_000))").await else { panic!("not a list") };
    assert_eq!(items.len(), 1_000_000);
}

#[tokio::test]
async fn cancelling_ends_a_program() {
    let engine = engine();
    let cancel = CancellationToken::new();
    let toolbox = Toolbox::shared();
    let (program, limits) = (program("pack.started()\nwhile True: pass"), Limits::default());
    let running = engine.execute(&program, &limits, toolbox.clone(), cancel.clone());
    let stop = async {
        toolbox.started.notified().await;
        cancel.cancel();
    };
    let (execution, ()) = tokio::join!(running, stop);
    assert_eq!(execution.result, Err(Failure::Cancelled));
}

#[tokio::test]
async fn no_state_leaks_from_one_run_to_the_next() {
    let engine = engine();
    let limits = Limits::default();
    run_in(&engine, "import builtins, json\nbuiltins.leak = 1\njson.dumps = None\nleft = 1", &limits).await;
    let execution = run_in(
        &engine,
        "import builtins, json\n[hasattr(builtins, 'leak'), 'left' in globals(), json.dumps(1)]",
        &limits,
    )
    .await;
    assert_eq!(execution.result.unwrap().repr(), "[False, False, '1']");
}

#[tokio::test]
async fn programs_beyond_the_number_of_children_wait_then_are_refused() {
    let settings = CPythonSettings { max_children: 1, queue_timeout: Duration::from_millis(50), ..settings() };
    let engine = CPython::new(settings);
    let toolbox = Toolbox::shared();
    let cancel = CancellationToken::new();
    let (first, limits) = (program("pack.started()\npack.never()"), Limits::default());
    let running = engine.execute(&first, &limits, toolbox.clone(), cancel.clone());
    let second = async {
        toolbox.started.notified().await;
        let execution = run_in(&engine, "1", &limits).await;
        cancel.cancel();
        execution
    };
    let (first, second) = tokio::join!(running, second);
    assert_eq!(first.result, Err(Failure::Cancelled));
    assert!(matches!(second.result, Err(Failure::Busy(_))), "{:?}", second.result);
}

#[tokio::test]
async fn a_missing_interpreter_is_said_so() {
    let engine = CPython::new(CPythonSettings { python: Some("/nowhere/python3".into()), ..settings() });
    let result = run_in(&engine, "1", &Limits::default()).await.result;
    assert!(matches!(&result, Err(Failure::Unavailable(text)) if text.contains("/nowhere/python3")), "{result:?}");
}

#[tokio::test]
async fn the_standard_library_works() {
    for code in [
        "import zoneinfo, datetime\nstr(datetime.datetime.now().year)",
        "import statistics, itertools, functools, collections, random, string, textwrap, uuid, hashlib, secrets\nhashlib.sha256(b'').hexdigest()",
        "import sqlite3\ndb = sqlite3.connect(':memory:')\ndb.execute('select 1 + 1').fetchone()",
        "import csv, io\nlist(csv.reader(io.StringIO('a,b')))",
        "import xml.etree.ElementTree as E\nE.fromstring('<a/>').tag",
        "import typing, enum, abc, contextlib, operator, copy, pickle, heapq, bisect, decimal, fractions\n'%s-%d' % ('a', 1)",
        "import traceback\ntry:\n    1 / 0\nexcept Exception:\n    t = traceback.format_exc()\nassert '1 / 0' in t, t",
        "import logging\nlogging.warning('w')",
    ] {
        let execution = run(code).await;
        assert!(execution.result.is_ok(), "{code}: {:?}\n{}", execution.result, execution.printed);
    }
}

/// A host that plays back what an earlier process recorded.
struct Recorded {
    /// How many times the program is told that it is repeating.
    repeats: AtomicI64,
}

#[async_trait]
impl Host for Recorded {
    fn lookup(&self, name: &str) -> Result<Lookup, ToolError> {
        Err(ToolError::raised("NameError", name.to_owned()))
    }

    fn attribute(&self, _: &str, name: &str) -> Result<Lookup, ToolError> {
        Err(ToolError::raised("AttributeError", name.to_owned()))
    }

    fn seed(&self) -> Option<u64> {
        Some(1)
    }

    async fn call(&self, target: CallTarget, _: Arguments) -> Result<Value, ToolError> {
        if target != CallTarget::Function(REPEATING.to_owned()) {
            return Ok(Value::Int(1_700_000_000_000_000));
        }
        Ok(Value::Bool(self.repeats.fetch_sub(1, Ordering::Relaxed) > 0))
    }
}

#[tokio::test]
async fn a_wait_of_an_earlier_process_is_not_waited_for_again() {
    let host = Arc::new(Recorded { repeats: AtomicI64::new(3) });
    let code = "import asyncio, time\n\
                time.sleep(3600)\ntime.sleep(3600)\nawait asyncio.sleep(3600)\n\
                before = time.perf_counter()\ntime.sleep(0.2)\nawait asyncio.sleep(0.1)\n\
                time.perf_counter() - before >= 0.3";
    let execution = engine().execute(&program(code), &Limits::default(), host.clone(), CancellationToken::new()).await;
    assert_eq!(execution.result, Ok(Value::Bool(true)), "{}", execution.printed);
    assert_eq!(host.repeats.load(Ordering::Relaxed), -1, "what is new is not asked about again");
}

/// The only file in a folder, its content and its mode.
fn kept_code(folder: &Path) -> (PathBuf, Vec<u8>, u32) {
    let files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let mode = std::os::unix::fs::MetadataExt::mode(&files[0].symlink_metadata().unwrap());
    (files[0].clone(), std::fs::read(&files[0]).unwrap(), mode)
}

async fn runs_with_cache(folder: &Path) {
    let settings = CPythonSettings { cache: Some(folder.to_owned()), ..settings() };
    let engine = CPython::new(settings);
    // One run in a new process, and one in a process forked by the zygote.
    for _ in 0..2 {
        let code = program("import json\njson.dumps([1 + 1])");
        let execution = engine.execute(&code, &Limits::default(), Toolbox::shared(), CancellationToken::new()).await;
        assert_eq!(execution.result, Ok(Value::Str("[2]".into())));
        engine.warm_up().await;
    }
}

#[tokio::test]
async fn the_host_program_is_compiled_once() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("cache/python");
    runs_with_cache(&folder).await;
    let (file, _, mode) = kept_code(&folder);
    assert_eq!(mode, 0o100_600);
    let written = file.metadata().unwrap().modified().unwrap();
    runs_with_cache(&folder).await;
    assert_eq!(kept_code(&folder).0.metadata().unwrap().modified().unwrap(), written);
}

#[tokio::test]
async fn a_changed_file_of_compiled_code_is_made_again() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("python");
    runs_with_cache(&folder).await;
    let (file, code, mode) = kept_code(&folder);
    let forged = root.path().join("forged");
    let tamper: [&dyn Fn(); 5] = [
        &|| std::fs::write(&file, "rubbish").unwrap(),
        &|| {
            let mut changed = code.clone();
            let last = changed.len() - 1;
            changed[last] ^= 1;
            std::fs::write(&file, changed).unwrap();
        },
        &|| std::fs::write(&file, [&code[..], b"more"].concat()).unwrap(),
        &|| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap(),
        &|| {
            std::fs::rename(&file, &forged).unwrap();
            std::os::unix::fs::symlink(&forged, &file).unwrap();
        },
    ];
    for tamper in tamper {
        tamper();
        runs_with_cache(&folder).await;
        let (again, content, its_mode) = kept_code(&folder);
        assert_eq!((&again, its_mode), (&file, mode));
        assert!(content.starts_with(b"onetool ") && content.len() > code.len() / 2, "{} bytes", content.len());
    }
    // If others can write to the folder, the file is not read, and programs still run.
    std::fs::write(&file, "rubbish").unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    runs_with_cache(&folder).await;
    assert_eq!(kept_code(&folder).1, b"rubbish");
}

async fn value_in(engine: &CPython, code: &str) -> Value {
    let execution = run_in(engine, code, &Limits::default()).await;
    execution.result.unwrap_or_else(|failure| panic!("{code}\n{failure:?}\n{}", execution.printed))
}

/// Children of a zygote that has imported everything do not share state with their siblings.
#[tokio::test]
async fn siblings_have_random_numbers_and_threads_of_their_own() {
    let engine = engine();
    let all_imported = "import sys\n'asyncio' in sys.modules and 'random' in sys.modules";
    while value_in(&engine, all_imported).await != Value::Bool(true) {}
    let mut numbers = Vec::new();
    for _ in 0..8 {
        numbers.push(format!("{:?}", value_in(&engine, "import random\nrandom.random()").await));
    }
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), 8, "{numbers:?}");
    let threads = "import asyncio, threading\nfrom concurrent.futures import ThreadPoolExecutor\n\
                   main = threading.main_thread() is threading.current_thread() and threading.active_count() == 1\n\
                   with ThreadPoolExecutor(2) as pool:\n    found = list(pool.map(abs, [-1, -2]))\n\
                   main and found == [1, 2] and await asyncio.to_thread(abs, -3) == 3";
    assert_eq!(value_in(&engine, threads).await, Value::Bool(true));
}

#[tokio::test]
async fn as_many_spares_are_kept_as_ran_at_once_and_none_for_long() {
    let engine = engine();
    engine.warm_up().await;
    let together = (0..6).map(|_| value_in(&engine, "import time\ntime.sleep(0.3)\n1"));
    futures_util::future::join_all(together).await;
    let within = std::time::Instant::now() + Duration::from_secs(20);
    let mut most = 0;
    while most < 5 {
        most = most.max(engine.census().idle);
        assert!(std::time::Instant::now() < within, "{most} spares");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while engine.census().idle > 0 {
        assert!(std::time::Instant::now() < within, "{} spares are left", engine.census().idle);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whatever this Python is, it lacks the names of newer ones.
#[tokio::test]
async fn a_name_of_a_newer_python_names_its_version() {
    let Value::Int(minor) = value("import sys\nsys.version_info[1]").await else { panic!("a number") };
    for (since, code) in [
        (12, "import itertools\nitertools.batched([1], 1)"),
        (12, "math.sumprod([1], [1])"),
        (12, "from typing import override"),
        (13, "from warnings import deprecated"),
        (14, "from pathlib import Path\nPath('a').copy"),
        (14, "import annotationlib"),
        (13, "import copy\ncopy.replace"),
    ] {
        if minor >= since {
            continue;
        }
        let (_, message, _) = raised(code).await;
        let expected = format!("it needs Python 3.{since}; this is 3.{minor}");
        assert!(message.contains(&expected) && message.contains("run.python"), "{code}: {message}");
    }
    let (_, message, _) = raised("import math\nmath.nothing").await;
    assert_eq!(message, "module 'math' has no attribute 'nothing'");
}

#[tokio::test]
async fn a_shelf_says_what_stores_values_instead() {
    let (exception, message, _) = raised("import shelve\nshelve.open('store')").await;
    assert!(message.contains("shelve and dbm cannot open files"), "{exception}: {message}");
}
