//! Numbers and equality as JSON Schema defines them: `1` and `1.0` are the same, and integers are compared exactly.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Number, Value as Json};

/// Arrays up to this length are compared item by item; longer ones are hashed.
const FEW_ITEMS: usize = 15;
/// Above this, a float can no longer represent every integer.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_992.0;

pub(super) fn compare(left: &Number, right: &Number) -> Ordering {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => compare_mixed(left, float(right)),
        (None, Some(right)) => compare_mixed(right, float(left)).reverse(),
        (None, None) => float(left).partial_cmp(&float(right)).unwrap_or(Ordering::Equal),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from))
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

/// An integer is within `i64::MIN..=u64::MAX`, so a float that saturates still compares correctly.
fn compare_mixed(integer: i128, float: f64) -> Ordering {
    let whole = float.trunc();
    integer.cmp(&(whole as i128)).then_with(|| 0.0.partial_cmp(&(float - whole)).unwrap_or(Ordering::Equal))
}

pub(super) fn equal(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Null, Json::Null) => true,
        (Json::Bool(left), Json::Bool(right)) => left == right,
        (Json::Number(left), Json::Number(right)) => compare(left, right) == Ordering::Equal,
        (Json::String(left), Json::String(right)) => left == right,
        (Json::Array(left), Json::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Json::Object(left), Json::Object(right)) => equal_objects(left, right),
        _ => false,
    }
}

fn equal_objects(left: &Map<String, Json>, right: &Map<String, Json>) -> bool {
    left.len() == right.len() && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| equal(left, right)))
}

/// The number of bytes of a text that cost as much as one value.
const TEXT_PER_STEP: usize = 16;

/// Returns the number of steps it takes to walk a value.
pub(super) fn weight(value: &Json) -> u64 {
    match value {
        Json::String(text) => 1 + (text.len() / TEXT_PER_STEP) as u64,
        Json::Array(items) => 1 + items.iter().map(weight).sum::<u64>(),
        Json::Object(object) => 1 + object.values().map(weight).sum::<u64>(),
        _ => 1,
    }
}

pub(super) fn are_unique(items: &[Json]) -> bool {
    if items.len() <= FEW_ITEMS {
        return items.iter().enumerate().all(|(at, item)| !items[..at].iter().any(|other| equal(item, other)));
    }
    let mut seen = HashSet::with_capacity(items.len());
    items.iter().all(|item| seen.insert(Hashed(item)))
}

/// A value with a hash that is the same for all equal values.
struct Hashed<'a>(&'a Json);

impl PartialEq for Hashed<'_> {
    fn eq(&self, other: &Self) -> bool {
        equal(self.0, other.0)
    }
}

impl Eq for Hashed<'_> {}

impl Hash for Hashed<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.0 {
            Json::Null => state.write_u8(0),
            Json::Bool(value) => value.hash(state),
            // Adding zero turns `-0.0` into `0.0`.
            Json::Number(number) => (float(number) + 0.0).to_bits().hash(state),
            Json::String(text) => text.hash(state),
            Json::Array(items) => items.iter().for_each(|item| Self(item).hash(state)),
            Json::Object(object) => {
                let mut sum = 0_u64;
                for (key, value) in object {
                    let mut hasher = DefaultHasher::new();
                    key.hash(&mut hasher);
                    Self(value).hash(&mut hasher);
                    sum = sum.wrapping_add(hasher.finish());
                }
                state.write_u64(sum);
            }
        }
    }
}

/// Whether a number is a multiple of another, both interpreted as the decimals they are written as.
pub(super) fn is_multiple_of(number: &Number, divisor: f64) -> bool {
    let value = float(number);
    if divisor.fract() != 0.0 {
        return value == 0.0 || value.abs() >= divisor && divides(value, divisor);
    }
    if let Some(integer) = integer(number)
        && (1.0..=MAX_SAFE_INTEGER).contains(&divisor)
    {
        return integer % (divisor as i128) == 0;
    }
    value.fract() == 0.0 && value % divisor == 0.0
}

/// Both numbers are integers times a power of ten: `digits % divisor`, with the difference of the powers on either side.
fn divides(value: f64, divisor: f64) -> bool {
    let (Some((digits, exponent)), Some((divisor, least))) = (decimal(value), decimal(divisor)) else { return false };
    if divisor == 0 {
        return false;
    }
    let difference = (exponent - least).unsigned_abs();
    if exponent >= least {
        return (0..difference).fold(digits % divisor, |rest, _| rest * 10 % divisor) == 0;
    }
    let scaled = 10_i128.checked_pow(difference).and_then(|scale| divisor.checked_mul(scale));
    // A divisor too large for `i128` is larger than any digits.
    scaled.is_some_and(|divisor| digits % divisor == 0)
}

/// Returns the shortest digits that represent `value`, and their power of ten.
fn decimal(value: f64) -> Option<(i128, i32)> {
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
    Some((digits.replace('.', "").parse().ok()?, exponent - decimals))
}
