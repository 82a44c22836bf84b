//! What the interpreter asks of an operating system. Clocks are answered; files and the environment are not there.

use chrono::{FixedOffset, Local, Utc};
use monty_pool::ResumeValue;
use monty_types::{MontyDate, MontyObject};
use onetool_sdk::DateTimeValue;

use super::convert::datetime_to_monty;

/// The answer to an operating system call.
pub(crate) fn answer(function: &str, args: &[MontyObject]) -> ResumeValue {
    use chrono::Datelike as _;
    match function {
        "date.today" => {
            let today = Local::now().date_naive();
            ResumeValue::Return(MontyObject::Date(MontyDate {
                year: today.year(),
                month: today.month() as u8,
                day: today.day() as u8,
            }))
        }
        "datetime.now" => {
            let offset = match args.first() {
                Some(MontyObject::TimeZone(zone)) => FixedOffset::east_opt(zone.offset_seconds),
                _ => None,
            };
            let at = match offset {
                Some(offset) => {
                    DateTimeValue { naive: Utc::now().with_timezone(&offset).naive_local(), offset: Some(offset) }
                }
                None => DateTimeValue { naive: Local::now().naive_local(), offset: None },
            };
            ResumeValue::Return(MontyObject::DateTime(datetime_to_monty(&at)))
        }
        _ => ResumeValue::NotHandled,
    }
}
