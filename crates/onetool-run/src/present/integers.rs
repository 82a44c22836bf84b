//! Integers too long to be written out: converting one to decimal digits takes quadratic time.

use onetool_sdk::Value;

/// Maximum bits of an integer that is written out.
const MAX_BITS: u64 = 1_000_000;
/// Maximum bits of all integers in one value that are written out.
const MAX_TOTAL_BITS: u64 = 4 * MAX_BITS;

/// Replaces every integer that is too long with `<int with N bits>`.
pub fn abbreviate_integers(value: &mut Value) {
    let mut left = MAX_TOTAL_BITS;
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::BigInt(number) => {
                let bits = number.bits();
                if bits > MAX_BITS || bits > left {
                    *value = Value::Opaque(format!("<int with {bits} bits>"));
                } else {
                    left -= bits;
                }
            }
            Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
                waiting.extend(items.iter_mut().rev());
            }
            Value::Dict(pairs) => waiting.extend(pairs.iter_mut().rev().flat_map(|(key, value)| [value, key])),
            Value::Record { fields, .. } => waiting.extend(fields.iter_mut().rev().map(|(_, value)| value)),
            Value::None
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Str(_)
            | Value::Bytes(_)
            | Value::Date(_)
            | Value::DateTime(_)
            | Value::Time(_)
            | Value::TimeDelta(_)
            | Value::Path(_)
            | Value::Exception { .. }
            | Value::Part(_)
            | Value::Opaque(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;

    use super::*;

    fn integer(bits: u64) -> Value {
        Value::BigInt(BigInt::from(1_i32) << (bits - 1))
    }

    fn shown(bits: u64) -> Value {
        Value::Opaque(format!("<int with {bits} bits>"))
    }

    #[test]
    fn integers_beyond_a_million_bits_are_named_by_their_size() {
        let mut value = Value::Dict(vec![(integer(2_000_000), Value::List(vec![integer(100), integer(1_000_001)]))]);
        abbreviate_integers(&mut value);
        let expected = Value::Dict(vec![(shown(2_000_000), Value::List(vec![integer(100), shown(1_000_001)]))]);
        assert_eq!(value, expected);
        let mut value = integer(1_000_000);
        abbreviate_integers(&mut value);
        assert_eq!(value, integer(1_000_000));
    }

    #[test]
    fn many_long_integers_are_written_out_only_up_to_a_total() {
        let mut value = Value::List(vec![integer(1_000_000); 6]);
        abbreviate_integers(&mut value);
        let written = [vec![integer(1_000_000); 4], vec![shown(1_000_000); 2]].concat();
        assert_eq!(value, Value::List(written));
    }
}
