//! Metrics in OTLP's JSON encoding: the same families as in `/metrics`.

use std::time::{SystemTime, UNIX_EPOCH};

use onetool_http::metrics::{BOUNDS, Family, Kind, Measured, Metrics, Sample};
use serde_json::{Value as Json, json};

use super::span::attribute;

/// OTLP's number for cumulative values.
const CUMULATIVE: u8 = 2;

/// Converts a snapshot of metrics. Counters count since `started`.
pub(super) fn to_json(metrics: &Metrics, started: SystemTime) -> Vec<Json> {
    let (start, now) = (nanoseconds(started), nanoseconds(SystemTime::now()));
    metrics.families.iter().map(|family| family_json(family, &start, &now)).collect()
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

fn family_json(family: &Family, start: &str, now: &str) -> Json {
    let points: Vec<Json> = family.samples.iter().map(|sample| point(sample, start, now)).collect();
    let mut json = json!({"name": family.name, "description": family.help});
    if family.name.ends_with("_seconds") {
        json["unit"] = "s".into();
    }
    match family.kind {
        Kind::Counter => {
            json["sum"] = json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true});
        }
        Kind::Gauge => json["gauge"] = json!({"dataPoints": points}),
        Kind::Histogram => {
            json["histogram"] = json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE});
        }
    }
    json
}

fn point(sample: &Sample, start: &str, now: &str) -> Json {
    let attributes: Vec<Json> = sample.labels.iter().map(|(name, value)| attribute(name, value)).collect();
    let mut point = json!({"attributes": attributes, "startTimeUnixNano": start, "timeUnixNano": now});
    match &sample.value {
        Measured::Number(value) => point["asDouble"] = json!(value),
        Measured::Distribution(value) => {
            point["count"] = value.count.to_string().into();
            point["sum"] = json!(value.sum);
            point["bucketCounts"] = value.buckets.iter().map(u64::to_string).collect();
            point["explicitBounds"] = json!(BOUNDS);
        }
    }
    point
}
