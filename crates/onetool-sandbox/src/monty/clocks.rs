//! The interpreter's operating system calls: clocks (here) and files ([`super::files`]); there is no environment.

use chrono::{FixedOffset, Local, Utc};
use onetool_sdk::{DateTimeValue, Value};

use crate::Host;

/// Returns the answer to an operating system call, or `None` if there is none.
pub(super) fn answer(function: &str, arguments: &[Value], host: &dyn Host) -> Option<Value> {
    let now = || host.now().unwrap_or_else(Utc::now);
    match function {
        "date.today" => Some(Value::Date(now().with_timezone(&Local).date_naive())),
        "datetime.now" => {
            let offset = match arguments.first() {
                Some(Value::TimeDelta(offset)) => {
                    i32::try_from(offset.num_seconds()).ok().and_then(FixedOffset::east_opt)
                }
                _ => None,
            };
            let at = match offset {
                Some(offset) => {
                    DateTimeValue { naive: now().with_timezone(&offset).naive_local(), offset: Some(offset) }
                }
                None => DateTimeValue { naive: now().with_timezone(&Local).naive_local(), offset: None },
            };
            Some(Value::DateTime(at))
        }
        _ => None,
    }
}
