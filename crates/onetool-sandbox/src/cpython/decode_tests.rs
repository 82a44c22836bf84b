//! Valid messages round-trip; anything else a program writes is rejected before it costs anything.

use std::sync::atomic::AtomicBool;

use onetool_sdk::Value;
use proptest::prelude::*;

use super::super::encode::Wire;
use super::super::protocol::{self, Message};
use super::*;
use crate::Limits;

#[path = "../../../../cases/fuzz/fuzzing.rs"]
mod fuzzing;

fn budget() -> Budget {
    Budget::new(&Limits::default())
}

fn value_of(text: &str) -> Result<Value, DecodeError> {
    let stop = AtomicBool::new(false);
    let mut decoder = Decoder::new(text.as_bytes(), budget(), &stop)?;
    let value = decoder.value(0)?;
    decoder.end()?;
    Ok(value)
}

fn message_of(text: &str) -> Result<Message, DecodeError> {
    protocol::message(text.as_bytes(), budget(), &AtomicBool::new(false))
}

#[test]
fn the_messages_of_the_host_program_are_read() {
    assert!(matches!(message_of("\"ready\""), Ok(Message::Ready)));
    let Ok(Message::Call { id: 7, target, arguments, .. }) = message_of(
        r#"{"call":{"id":7,"pack":"p","function":"f","args":[1,{"$ot":"tuple","v":[2]}],"kwargs":[["k","v"]]}}"#,
    ) else {
        panic!("not a call")
    };
    assert_eq!(target, crate::CallTarget::Method { pack: "p".into(), function: "f".into() });
    assert_eq!(arguments.positional, [Value::Int(1), Value::Tuple(vec![Value::Int(2)])]);
    assert_eq!(arguments.named["k"], Value::from("v"));
    let Ok(Message::Failed(failed)) = message_of(
        r#"{"failed":{"exception":"E","message":"m\n\u00e9\ud83d\ude00","too_large":false,"frames":[[3,null],[4,"f"]],"read_back":[]}}"#,
    ) else {
        panic!("not a failure")
    };
    assert_eq!((failed.message.as_str(), failed.frames.len()), ("m\né😀", 2));
    assert!(
        matches!(message_of(r#"{"lookup":{"id":1,"names":["a","b"]}}"#), Ok(Message::Lookup { names, .. }) if names.len() == 2)
    );
    assert!(matches!(
        message_of(r#"{"done":{"value":null,"read_back":[]}}"#),
        Ok(Message::Done { value: Value::None, .. })
    ));
}

#[test]
fn the_shared_examples_of_the_format_cross_without_loss() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases/wire/vectors.json");
    let vectors: Vec<serde_json::Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for vector in vectors {
        let value = value_of(&vector["wire"].to_string()).unwrap_or_else(|error| panic!("{vector}: {error}"));
        assert_eq!(serde_json::to_value(Wire(&value)).unwrap(), vector["wire"], "{}", vector["python"]);
    }
}

#[test]
fn rubbish_is_refused() {
    for text in [
        "",
        "{",
        "\"",
        "\"\\",
        "\"\\x\"",
        "[1,]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":1,\"$ot\":\"int\"}",
        "{\"$ot\":\"nope\",\"v\":1}",
        "{\"$ot\":\"int\",\"v\":\"x\"}",
        "{\"$ot\":\"dict\",\"v\":[[1]]}",
        "{\"$ot\":\"bytes\",\"v\":\"%\"}",
        "tru",
        "-",
        "1e",
        "nul",
        "1 1",
        "{\"$ot\":\"date\",\"v\":\"tomorrow\"}",
        "{\"$ot\":5,\"v\":1}",
    ] {
        assert!(matches!(value_of(text), Err(DecodeError::Malformed(..))), "{text}: {:?}", value_of(text));
    }
    for text in ["{}", "\"run\"", r#"{"shell":{"id":1}}"#, r#"{"call":{"id":-1}}"#, r#"{"call":{"sudo":1}}"#] {
        assert!(matches!(message_of(text), Err(DecodeError::Malformed(..))), "{text}");
    }
    let stop = AtomicBool::new(false);
    assert!(Decoder::new(b"\xff", budget(), &stop).is_err());
}

#[test]
fn forged_sizes_are_refused_before_they_are_built() {
    let digits = format!(
        "{{\"done\":{{\"value\":{{\"$ot\":\"int\",\"v\":\"{}\"}},\"read_back\":[]}}}}",
        "9".repeat(100_000_000)
    );
    assert_eq!(message_of(&digits).unwrap_err(), DecodeError::Budget(BudgetExceeded::Digits));
    let zeros = format!("{{\"done\":{{\"value\":[{}0],\"read_back\":[]}}}}", "0,".repeat(30_000_000));
    assert!(matches!(message_of(&zeros), Err(DecodeError::Budget(_))));
    let call = zeros.replace("{\"done\":{\"value\":", "{\"call\":{\"args\":").replace("read_back", "kwargs");
    assert!(matches!(message_of(&call), Err(DecodeError::Budget(_))));
    let names = format!("{{\"lookup\":{{\"id\":1,\"names\":[{}\"a\"]}}}}", "\"a\",".repeat(1_000_000));
    assert_eq!(message_of(&names).unwrap_err(), DecodeError::Budget(BudgetExceeded::Names));
    let deep = "[".repeat(100_000);
    assert_eq!(value_of(&deep), Err(DecodeError::Budget(BudgetExceeded::Depth)));
    let tagged = "{\"$ot\":\"tuple\",\"v\":[".repeat(100_000);
    assert_eq!(value_of(&tagged), Err(DecodeError::Budget(BudgetExceeded::Depth)));
    let part = format!("{{\"$ot\":\"part\",\"v\":{}", "[".repeat(100_000));
    assert_eq!(value_of(&part), Err(DecodeError::Budget(BudgetExceeded::Depth)));
}

#[test]
fn a_message_that_nobody_wants_any_more_is_left() {
    let text = format!("[{}0]", "0,".repeat(10_000));
    let stop = AtomicBool::new(true);
    let mut decoder = Decoder::new(text.as_bytes(), budget(), &stop).unwrap();
    assert_eq!(decoder.value(0), Err(DecodeError::Stopped));
}

/// Values that the host program may write.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_filter("NaN is never equal", |value| !value.is_nan()).prop_map(Value::Float),
        "\\PC{0,8}|\\$ot|[\\x00-\\x20\"\\\\]{0,4}".prop_map(Value::Str),
        prop::collection::vec(any::<u8>(), 0..8).prop_map(Value::Bytes),
        any::<i64>().prop_map(|micros| Value::TimeDelta(chrono::TimeDelta::microseconds(micros))),
        "[0-9]{20,60}".prop_map(|digits| Value::BigInt(format!("1{digits}").parse().unwrap())),
        "\\PC{0,8}".prop_map(Value::Path),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let items = || prop::collection::vec(inner.clone(), 0..5);
        prop_oneof![
            items().prop_map(Value::List),
            items().prop_map(Value::Tuple),
            items().prop_map(Value::FrozenSet),
            prop::collection::vec((inner.clone(), inner.clone()), 0..4).prop_map(Value::Dict),
            ("\\PC{0,4}", prop::collection::vec(("[a-z]{1,3}", inner), 0..3))
                .prop_map(|(type_name, fields)| Value::Record { type_name, fields }),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(value in values()) {
        let text = serde_json::to_string(&Wire(&value)).unwrap();
        prop_assert_eq!(value_of(&text).unwrap(), value);
    }

    /// Fragments of messages in any order give an error or a message, never a panic, and never exceed the budget.
    #[test]
    fn forged_messages_are_read_or_refused(pieces in prop::collection::vec(
        prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "d83d", "\"$ot\":", "\"int\"", "\"v\":", "\"t\":", "\"dict\"",
            "\"done\":", "\"call\":", "\"lookup\":", "\"names\":", "\"args\":", "\"value\":", "\"read_back\":[]", "null",
            "true", "1", "-", "1e999", "99999999999999999999", "\"é\"", "\"part\"", "\"record\"", " ", "\u{0}",
        ]), 0..40))
    {
        let _ = message_of(&pieces.concat());
    }

    #[test]
    fn a_damaged_message_is_read_or_refused(value in values(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut line = format!("{{\"done\":{{\"value\":{},\"read_back\":[]}}}}", serde_json::to_string(&Wire(&value)).unwrap()).into_bytes();
        let at = at.index(line.len());
        line[at] = byte;
        let _ = protocol::message(&line, budget(), &AtomicBool::new(false));
    }
}

/// The minimum memory size of a value.
fn weight(value: &Value) -> usize {
    let below = match value {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
            items.iter().map(weight).sum()
        }
        Value::Dict(pairs) => pairs.iter().map(|(key, value)| weight(key) + weight(value)).sum(),
        Value::Str(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    size_of::<Value>() + below
}

#[test]
fn fuzz_messages_of_full_python() {
    let limits = Limits { max_memory: 4 << 20, ..Limits::default() };
    let messages = fuzzing::Messages::json(&[
        "\"ready\"",
        r#"{"call":{"id":7,"pack":"p","function":"f","args":[1,{"$ot":"tuple","v":[2]}],"kwargs":[["k","v"]]}}"#,
        r#"{"failed":{"exception":"E","message":"m\n\u00e9\ud83d\ude00","too_large":false,"frames":[[3,null],[4,"f"]],"read_back":[]}}"#,
        r#"{"lookup":{"id":1,"names":["a","b"]}}"#,
        r#"{"done":{"value":{"$ot":"dict","v":[[1,{"$ot":"int","v":"123456789012345678901234567890"}]]},"read_back":[["x",5]]}}"#,
        r#"{"done":{"value":[{"$ot":"image","t":"image/png","v":"AAAA"},{"$ot":"datetime","v":"2024-01-01T00:00:00"}],"read_back":[]}}"#,
        r#"{"print":"text"}"#,
    ]);
    fuzzing::fuzz("full Python", &messages, |line| {
        let message = protocol::message(line, Budget::new(&limits), &AtomicBool::new(false));
        if let Ok(Message::Done { value, .. }) = message {
            assert!(weight(&value) <= limits.max_memory, "more than its budget: {}", weight(&value));
        }
    });
}
