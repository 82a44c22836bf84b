//! Values and messages round-trip, and nothing that a child can write does harm.

use onetool_sdk::{Part, Value};

use super::events::{
    Event, FailedEvent, put_await, put_call, put_done, put_failed, put_lookup, put_os_call, put_print, read_event,
};
use super::*;
use crate::Limits;
use crate::monty::convert::{Values, put_value};
use crate::monty::objects::Objects;

#[path = "../../../../../cases/fuzz/fuzzing.rs"]
#[allow(dead_code, reason = "the messages of a Monty child are not JSON")]
mod fuzzing;

fn written(value: Value, objects: &mut Objects) -> Vec<u8> {
    let mut message = Vec::new();
    put_value(&mut message, value, objects).unwrap();
    message
}

fn read(message: &[u8], limits: &Limits, objects: &Objects) -> Result<Value, WireError> {
    read_value(&mut Input::new(message, Budget::new(limits)), &mut Values(objects))
}

#[test]
fn values_cross_as_they_are() {
    let mut objects = Objects::default();
    let part = Value::Part(Part::Image { media_type: "image/png".to_owned(), data: vec![1, 2] });
    for value in [
        Value::None,
        Value::Bool(true),
        Value::Int(0),
        Value::Int(i64::MIN),
        Value::Int(i64::MAX),
        Value::BigInt(-(num_bigint::BigInt::from(1_i32) << 200_u32)),
        Value::Float(-0.5),
        Value::Str("süß\0".to_owned()),
        Value::Bytes(vec![0, 255]),
        Value::List(vec![Value::Tuple(vec![Value::Int(-1)]), Value::Set(vec![]), Value::FrozenSet(vec![Value::None])]),
        Value::Dict(vec![(Value::Int(1), Value::Str("a".to_owned())), (Value::None, Value::List(vec![]))]),
        Value::Path("/a".to_owned()),
        Value::Record { type_name: "P".to_owned(), fields: vec![("x".to_owned(), Value::Int(300))] },
        Value::Exception { type_name: "ValueError".to_owned(), message: "m".to_owned() },
        Value::Date(chrono::NaiveDate::from_ymd_opt(-4, 2, 28).unwrap()),
        Value::Time(chrono::NaiveTime::from_hms_micro_opt(23, 59, 59, 999_999).unwrap()),
        Value::TimeDelta(chrono::TimeDelta::microseconds(-1)),
        part,
    ] {
        let message = written(value.clone(), &mut objects);
        assert_eq!(read(&message, &Limits::default(), &objects), Ok(value));
    }
}

#[test]
fn a_value_that_claims_more_than_it_has_is_refused() {
    let objects = Objects::default();
    let list_of_a_billion = [8, 0x80, 0x94, 0xeb, 0xdc, 0x03, 0, 0];
    let endless_number = [3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
    let half_a_float = [5, 0, 0, 0];
    let text_that_is_none = [6, 2, 0xff, 0xfe];
    let unknown = [99];
    let no_such_object = [22, 1, 7, 0];
    for message in
        [&list_of_a_billion[..], &endless_number, &half_a_float, &text_that_is_none, &unknown, &no_such_object, &[]]
    {
        let result = read(message, &Limits::default(), &objects);
        assert!(matches!(result, Err(WireError::Invalid(_))), "{message:?} {result:?}");
    }
}

#[test]
fn a_value_that_is_larger_decoded_than_sent_meets_the_budget() {
    let limits = Limits { max_memory: 1 << 20, ..Limits::default() };
    let mut objects = Objects::default();
    let nones = written(Value::List(vec![Value::None; 100_000]), &mut objects);
    assert!(nones.len() < 200_000);
    assert_eq!(read(&nones, &limits, &objects), Err(WireError::Budget(BudgetExceeded::Bytes)));
    let part = Part::Image { media_type: "image/png".to_owned(), data: vec![0; 600_000] };
    let twice = vec![Value::Part(part.clone()), Value::Part(part)];
    let pictures = written(Value::List(twice), &mut objects);
    assert_eq!(read(&pictures, &limits, &objects), Err(WireError::Budget(BudgetExceeded::Bytes)));
}

#[test]
fn nesting_is_limited_on_both_sides() {
    let nested = |levels: usize| (0..levels).fold(Value::None, |inner, _| Value::List(vec![inner]));
    let mut objects = Objects::default();
    let message = written(nested(MAX_DEPTH), &mut objects);
    assert!(read(&message, &Limits::default(), &objects).is_ok());
    assert_eq!(put_value(&mut Vec::new(), nested(MAX_DEPTH + 1), &mut objects), Err(TooDeep));
    let forged: Vec<u8> = [8, 1].repeat(100_000);
    assert_eq!(read(&forged, &Limits::default(), &objects), Err(WireError::Budget(BudgetExceeded::Depth)));
}

#[test]
fn a_message_ends_where_it_says() {
    let mut message = Vec::new();
    put_failed(&mut message, &FailedEvent::Timeout);
    let event = |message: &[u8]| {
        read_event(Input::new(message, Budget::new(&Limits::default())), &mut Values(&Objects::default()))
    };
    assert!(matches!(event(&message), Ok(Event::Failed(FailedEvent::Timeout))));
    message.push(0);
    assert_eq!(event(&message).unwrap_err(), WireError::Invalid("it goes on after its end"));
}

#[test]
fn fuzz_messages_of_monty() {
    let limits = Limits { max_memory: 4 << 20, ..Limits::default() };
    let mut objects = Objects::default();
    let values = Value::List(vec![
        Value::Dict(vec![(Value::Str("key".to_owned()), Value::Tuple(vec![Value::Int(-1), Value::Float(0.5)]))]),
        Value::BigInt(num_bigint::BigInt::from(1_i32) << 200_u32),
        Value::Bytes(vec![0, 255]),
        Value::Record { type_name: "P".to_owned(), fields: vec![("x".to_owned(), Value::None)] },
        Value::Part(Part::Image { media_type: "image/png".to_owned(), data: vec![1, 2] }),
    ]);
    let value = written(values, &mut objects);
    let mut honest = Vec::new();
    let mut message = |put: &dyn Fn(&mut Vec<u8>), has_value: bool| {
        let mut bytes = Vec::new();
        put(&mut bytes);
        if has_value {
            bytes.extend_from_slice(&value);
        }
        honest.push(bytes);
    };
    message(&|out| put_print(out, "printed"), false);
    message(&|out| put_call(out, 7, Some(1), "function"), true);
    message(&|out| put_os_call(out, "open", 1), true);
    message(&|out| put_lookup(out, "name", None), false);
    message(&|out| put_await(out, &[1, 2, 3]), false);
    message(&|out| put_done(out), true);
    message(&|out| put_failed(out, &FailedEvent::Timeout), false);
    honest.push(value.clone());
    let pieces: Vec<&'static [u8]> = vec![
        &[0],
        &[1],
        &[8, 1],
        &[255; 9],
        &[0x80; 10],
        &[6, 2],
        &[9, 0xff, 0xff, 0x7f],
        &[4, 0xff, 0xff, 0xff, 0x7f],
        &[22, 1],
    ];
    fuzzing::fuzz("Monty", &fuzzing::Messages { honest, pieces }, |message| {
        let _ = read(message, &limits, &objects);
        let _ = read_event(Input::new(message, Budget::new(&limits)), &mut Values(&objects));
    });
}
