//! What the interpreter asks of an operating system. Clocks are answered here, files in [`super::files`]; there is no environment.

use chrono::{FixedOffset, Local, Utc};
use onetool_sdk::{DateTimeValue, Value};

/// The answer to an operating system call; nothing where there is none.
pub(super) fn answer(function: &str, arguments: &[Value]) -> Option<Value> {
    match function {
        "date.today" => Some(Value::Date(Local::now().date_naive())),
        "datetime.now" => {
            let offset = match arguments.first() {
                Some(Value::TimeDelta(offset)) => {
                    i32::try_from(offset.num_seconds()).ok().and_then(FixedOffset::east_opt)
                }
                _ => None,
            };
            let at = match offset {
                Some(offset) => {
                    DateTimeValue { naive: Utc::now().with_timezone(&offset).naive_local(), offset: Some(offset) }
                }
                None => DateTimeValue { naive: Local::now().naive_local(), offset: None },
            };
            Some(Value::DateTime(at))
        }
        _ => None,
    }
}
