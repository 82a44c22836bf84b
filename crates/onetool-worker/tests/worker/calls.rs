//! Arguments, values, errors, and concurrency.

use onetool_sdk::{ErrorKind, Value};

use crate::toolbox::{Toolbox, dict};

const VALUES: &str = r#"
import collections, dataclasses, datetime, enum, pathlib

@dataclasses.dataclass
class Point:
    x: int
    y: float

Pair = collections.namedtuple("Pair", "a b")

class Colour(enum.Enum):
    RED = "red"

def echo(value):
    return value

def many():
    return [
        None, True, -5, 2**70, 1.5, float("inf"), "ü\n\ud800", b"\x00\xff", (1, 2), {3}, frozenset([4]),
        {"a": 1}, {1: "x"}, {"$ot": 1}, datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
        datetime.timedelta(days=-1), pathlib.Path("/a/b"), Point(1, 2.0), Pair(1, 2), Colour.RED, ValueError("no"),
        range(3), (n for n in "ab"), bytearray(b"x"), {"k": [1, (2,)]}, 3 + 4j,
    ]

def types(value) -> str:
    return type(value).__name__

def take(point: Point, path: pathlib.Path, colour: Colour, when: "datetime.date | None" = None) -> list:
    return [point.x, path.name, colour is Colour.RED, when.year if when else None]

@dataclasses.dataclass
class Path2:
    points: list[Point]
    colours: "dict[str, Colour]"

def nested(paths: list[Path2], days: "list[datetime.date] | None" = None) -> list:
    return [paths[0].points[0].x, paths[0].colours["a"] is Colour.RED, days[0].year if days else None]

def secret():
    from onetool import get_secret
    try:
        return get_secret("NEVER_NAMED")
    except PermissionError as error:
        raise RuntimeError("no key") from error

def deep():
    value = []
    value.append(value)
    return value

def fail(kind: str):
    if kind == "value":
        raise ValueError("bad \u00fc")
    if kind == "exit":
        raise SystemExit(3)
    if kind == "key":
        return {}["missing"]
    raise RuntimeError("caused") from OSError("cause")
"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_value_crosses() {
    let tools = Toolbox::new(&[("v", VALUES)]);
    let Value::List(values) = tools.call("v.many", &[]).await.unwrap() else { panic!("not a list") };
    let shown: Vec<String> = values.iter().map(Value::repr).collect();
    let record = |type_name: &str, fields: &[(&str, Value)]| Value::Record {
        type_name: type_name.into(),
        fields: fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    };
    assert_eq!(
        values[..6],
        [
            Value::None,
            Value::Bool(true),
            Value::Int(-5),
            Value::BigInt("1180591620717411303424".parse().unwrap()),
            Value::Float(1.5),
            Value::Float(f64::INFINITY)
        ]
    );
    assert_eq!(values[6], Value::from("ü\n?"), "a lone surrogate has no UTF-8");
    assert_eq!(
        values[7..11],
        [
            Value::Bytes(vec![0, 255]),
            Value::Tuple(vec![Value::Int(1), Value::Int(2)]),
            Value::Set(vec![Value::Int(3)]),
            Value::FrozenSet(vec![Value::Int(4)])
        ]
    );
    assert_eq!(values[12], Value::Dict(vec![(Value::Int(1), Value::from("x"))]));
    assert_eq!(values[13], dict(&[("$ot", Value::Int(1))]));
    assert!(matches!(values[14], Value::Date(_)) && matches!(values[15], Value::DateTime(_)), "{shown:?}");
    assert!(matches!(values[16], Value::TimeDelta(delta) if delta.num_days() == -1));
    assert_eq!(values[17], Value::Path("/a/b".into()));
    assert_eq!(values[18], record("Point", &[("x", Value::Int(1)), ("y", Value::Float(2.0))]));
    assert_eq!(values[19], record("Pair", &[("a", Value::Int(1)), ("b", Value::Int(2))]));
    assert_eq!(values[20], Value::from("red"));
    assert_eq!(values[21], Value::Exception { type_name: "ValueError".into(), message: "no".into() });
    assert_eq!(values[22], Value::List(vec![Value::Int(0), Value::Int(1), Value::Int(2)]));
    assert_eq!(values[23], Value::List(vec![Value::from("a"), Value::from("b")]));
    assert_eq!(values[26], Value::Opaque("(3+4j)".into()));
    // And back: each value round-trips.
    for value in values {
        if !matches!(value, Value::Exception { .. } | Value::Opaque(_)) {
            let again = tools.call("v.echo", &[("value", value.clone())]).await.unwrap();
            match (&value, &again) {
                (Value::Record { fields: a, .. }, Value::Record { fields: b, .. }) => assert_eq!(a, b),
                _ => assert_eq!(again, value),
            }
        }
    }
    let far = chrono::NaiveDate::from_ymd_opt(12_000, 1, 1).unwrap();
    let error = tools.call("v.echo", &[("value", Value::Date(far))]).await.unwrap_err();
    assert_eq!(error.exception(), "ValueError", "what Python can't hold is an error at once");
    assert_eq!(tools.call("v.types", &[("value", Value::Bytes(vec![1]))]).await.unwrap(), Value::from("bytes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn annotated_parameters_get_what_they_ask_for() {
    let tools = Toolbox::new(&[("v", VALUES)]);
    let arguments = [
        ("point", dict(&[("x", Value::Int(7)), ("y", Value::Float(1.0))])),
        ("path", Value::from("/a/b.txt")),
        ("colour", Value::from("red")),
        ("when", Value::from("2024-01-02")),
    ];
    let expected = Value::List(vec![Value::Int(7), Value::from("b.txt"), Value::Bool(true), Value::Int(2024)]);
    assert_eq!(tools.call("v.take", &arguments).await.unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_nested_arrives_in_the_types_that_were_asked_for() {
    let tools = Toolbox::new(&[("v", VALUES)]);
    let point = dict(&[("x", Value::Int(7)), ("y", Value::Float(1.0))]);
    let colours = dict(&[("a", Value::from("red"))]);
    let path = dict(&[("points", Value::List(vec![point])), ("colours", colours)]);
    let days = Value::List(vec![Value::from("2024-02-29")]);
    let seen = tools.call("v.nested", &[("paths", Value::List(vec![path])), ("days", days)]).await.unwrap();
    assert_eq!(seen, Value::List(vec![Value::Int(7), Value::Bool(true), Value::Int(2024)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_traceback_has_no_frames_of_the_host() {
    let tools = Toolbox::new(&[("v", VALUES)]);
    let trace = tools.call("v.secret", &[]).await.unwrap_err().traceback.unwrap();
    assert!(trace.contains("in secret") && trace.contains("PermissionError"), "{trace}");
    assert!(!trace.contains("<string>") && !trace.contains("_request"), "{trace}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exceptions_keep_their_type_message_and_own_traceback() {
    let tools = Toolbox::new(&[("v", VALUES)]);
    let fail = async |kind: &str| tools.call("v.fail", &[("kind", Value::from(kind))]).await.unwrap_err();
    let error = fail("value").await;
    assert_eq!((error.exception(), error.message.as_str()), ("ValueError", "bad ü"));
    let trace = error.traceback.unwrap();
    assert!(trace.contains("v_tools.py") && trace.contains("in fail"), "{trace}");
    assert!(!trace.contains("_serve"), "{trace}");
    assert_eq!(fail("exit").await.message, "the tool called sys.exit(3)");
    assert_eq!(fail("key").await.exception(), "KeyError");
    assert!(fail("other").await.traceback.unwrap().contains("OSError: cause"));
    let error = tools.call("v.echo", &[]).await.unwrap_err();
    assert_eq!(error.exception(), "TypeError");
    // A list inside itself is shown as Python shows it.
    assert_eq!(tools.call("v.deep", &[]).await.unwrap(), Value::List(vec![Value::Opaque("[...]".into())]));
}

#[tokio::test(flavor = "multi_thread")]
async fn positional_arguments_and_keyword_rest_arrive() {
    let tools = Toolbox::new(&[("p", "def f(a, *rest, b=1, **more):\n    return [a, rest, b, more]\n")]);
    let source = &tools.source;
    let pack = onetool_sdk::ToolSource::packs(&**source).remove(0);
    let tool = pack.tools["f"].clone();
    let mut arguments = onetool_sdk::Arguments::named([("z", Value::Int(3))]);
    arguments.positional = vec![Value::Int(1), Value::Int(2)];
    let call = onetool_sdk::ToolCall { pack, tool, version: None, arguments };
    let value = onetool_sdk::ToolSource::call(&**source, call, &tools.context()).await.unwrap();
    assert_eq!(value.repr(), "[1, (2,), 1, {'z': 3}]");
}

const BOTH: &str = r#"
import asyncio, threading

arrived = 0
everyone = asyncio.Event()

async def meet(count: int) -> int:
    """Returns only when `count` calls are here at the same time."""
    global arrived
    arrived += 1
    if arrived == count:
        everyone.set()
    await everyone.wait()
    return arrived

def plain() -> int:
    return 1

async def hang() -> None:
    await asyncio.sleep(3600)

def plain_that_awaits():
    async def inner():
        await asyncio.sleep(0)
        return threading.current_thread().name
    return inner()

async def stream():
    for n in range(3):
        yield n
"#;

#[tokio::test(flavor = "multi_thread")]
async fn async_functions_run_side_by_side() {
    let tools = Toolbox::new(&[("b", BOTH)]);
    let count = 10;
    let arguments = [("count", Value::Int(count))];
    let meetings = futures_util::future::join_all((0..count).map(|_| tools.call("b.meet", &arguments)));
    assert!(meetings.await.into_iter().all(|met| met == Ok(Value::Int(count))));
    // A plain call is served while an async one waits.
    let ctx = tools.context();
    let (hanging, plain) = tokio::join!(tools.call_in("b.hang", &[], &ctx), async {
        let plain = tools.call("b.plain", &[]).await;
        ctx.cancel.cancel();
        plain
    });
    assert_eq!(plain, Ok(Value::Int(1)));
    assert_eq!(hanging.unwrap_err().kind, ErrorKind::Cancelled);
    assert_eq!(tools.source.live_workers(), 1, "a cancelled async call leaves its worker alone");
    assert_eq!(tools.text("b.plain_that_awaits").await, "onetool-loop");
    assert_eq!(tools.call("b.stream", &[]).await.unwrap().repr(), "[0, 1, 2]");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_waiting_calls_are_refused() {
    let settings = onetool_worker::WorkerSettings { max_queue: 2, threads: 1, ..Default::default() };
    let source = "import time\ndef slow():\n    time.sleep(0.3)\n";
    let tools = Toolbox::with(&[("q", source)], settings, std::sync::Arc::new(onetool_worker::NoServices));
    let results = futures_util::future::join_all((0..6).map(|_| tools.call("q.slow", &[]))).await;
    let refused = results
        .iter()
        .filter(|result| matches!(result, Err(error) if matches!(error.kind, ErrorKind::RateLimited { .. })));
    assert_eq!(refused.count(), 3, "{results:?}");
}
