//! Sums up the records of a period.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, TimeDelta, Utc};
use onetool_sdk::Value;

use super::{Record, RecordKind, Saved};
use crate::interface::{Position, StateError, Stream, Trail};
use crate::wait;

/// Maximum number of bars in the chart over all time.
const TIMELINE_BARS: i64 = 60;
/// Minimum number of bars: a chart of one bar says nothing.
const FEWEST_BARS: i64 = 12;
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Which records are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    Day,
    Week,
    Month,
    All,
}

impl Period {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "day" => Some(Self::Day),
            "week" => Some(Self::Week),
            "month" => Some(Self::Month),
            "all" => Some(Self::All),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::All => "all",
        }
    }

    fn since(self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let length = match self {
            Self::Day => TimeDelta::days(1),
            Self::Week => TimeDelta::days(7),
            Self::Month => TimeDelta::days(30),
            Self::All => return None,
        };
        now.checked_sub_signed(length)
    }
}

/// Assumptions behind the estimates.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumptions {
    /// Tokens of context that a call saves, if configured; otherwise measured.
    pub context_per_call: Option<u64>,
    /// Milliseconds that a call saves, if configured; otherwise measured.
    pub time_overhead_per_call_ms: Option<u64>,
    /// US dollars per million tokens that a model reads.
    pub input_cost: f64,
    /// US dollars per million tokens that a model writes.
    pub output_cost: f64,
    pub chars_per_token: f64,
}

impl Assumptions {
    fn tokens(&self, bytes: u64) -> u64 {
        (bytes as f64 / self.chars_per_token.max(f64::MIN_POSITIVE)) as u64
    }
}

/// Sums.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    pub calls: u64,
    pub errors: u64,
    pub chars_in: u64,
    pub chars_out: u64,
    pub ms: f64,
    pub max_ms: f64,
    pub error_types: BTreeMap<String, u64>,
    pub saved: Saved,
}

impl Totals {
    fn add(&mut self, record: &Record) {
        self.calls += record.calls;
        self.saved.add(record.saved);
        self.errors += record.failures();
        self.chars_in += record.chars_in;
        self.chars_out += record.chars_out;
        self.ms += record.ms;
        self.max_ms = self.max_ms.max(record.slowest());
        for (error, count) in &record.errors {
            *self.error_types.entry(error.clone()).or_default() += count;
        }
    }

    /// In percent; 100 if there were no calls.
    pub fn success_rate(&self) -> f64 {
        if self.calls == 0 {
            return 100.0;
        }
        rounded(100.0 * (self.calls.saturating_sub(self.errors)) as f64 / self.calls as f64, 10.0)
    }

    pub fn average_ms(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { rounded(self.ms / self.calls as f64, 10.0) }
    }
}

fn rounded(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps
}

/// The totals of one tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolStats {
    pub tool: String,
    pub totals: Totals,
}

/// The calls that ended in one interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    pub start: DateTime<Utc>,
    pub calls: u64,
    pub errors: u64,
    /// Tokens of context saved, counted like [`Report::context_saved`].
    pub context_saved: u64,
}

/// The calls and runs that ended in one hour.
#[derive(Debug, Clone, Copy, Default)]
struct Hour {
    calls: u64,
    errors: u64,
    /// Calls that save something by themselves.
    useful: u64,
    /// Bytes returned by such calls.
    useful_bytes: u64,
    saved: Saved,
}

impl Hour {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.useful += other.useful;
        self.useful_bytes += other.useful_bytes;
        self.saved.add(other.saved);
    }

    /// With `is_one_tool`, only results of one tool or pack count.
    fn context_saved(&self, assumed: &Assumptions, is_one_tool: bool) -> u64 {
        if let Some(flat) = assumed.context_per_call {
            return self.useful.saturating_mul(flat);
        }
        let bytes = if is_one_tool { self.useful_bytes } else { self.saved.kept.saturating_sub(self.saved.cost) };
        assumed.tokens(bytes)
    }
}

/// A period's statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub period: Period,
    /// Only this tool or pack is included, if set.
    pub tool: Option<String>,
    pub generated: DateTime<Utc>,
    /// Calls of tools.
    pub calls: Totals,
    pub runs: Totals,
    /// Most called first.
    pub tools: Vec<ToolStats>,
    pub assumptions: Assumptions,
    /// From the beginning of the period to now, without gaps.
    pub timeline: Vec<Bar>,
    /// Seconds that one bar covers.
    pub bar_seconds: i64,
}

impl Report {
    /// Reads the stream; without one, the report is empty. `tool` is `pack.function`, or a pack for all of its tools.
    pub fn read(
        trail: Option<&dyn Trail>,
        period: Period,
        tool: Option<&str>,
        assumptions: Assumptions,
        now: DateTime<Utc>,
    ) -> Result<Self, StateError> {
        let since = period.since(now);
        let mut calls = Totals::default();
        let mut runs = Totals::default();
        let mut tools: HashMap<String, Totals> = HashMap::new();
        let mut hours: BTreeMap<i64, Hour> = BTreeMap::new();
        let mut count = |line: &str| {
            let Ok(record) = serde_json::from_str::<Record>(line) else { return };
            if since.is_some_and(|since| record.at < since) {
                return;
            }
            let hour = record.at.timestamp().div_euclid(HOUR);
            match record.kind {
                RecordKind::Run => {
                    runs.add(&record);
                    if tool.is_none() {
                        hours.entry(hour).or_default().saved.add(record.saved);
                    }
                }
                RecordKind::Call if tool.is_none_or(|wanted| is_of(&record.tool, wanted)) => {
                    calls.add(&record);
                    let is_useful = !record.tool.starts_with("ot.");
                    hours.entry(hour).or_default().add(&Hour {
                        calls: record.calls,
                        errors: record.failures(),
                        useful: if is_useful { record.calls.saturating_sub(record.failures()) } else { 0 },
                        useful_bytes: if is_useful { record.chars_out } else { 0 },
                        saved: Saved::default(),
                    });
                    tools.entry(record.tool.clone()).or_default().add(&record);
                }
                RecordKind::Call => {}
            }
        };
        if let Some(trail) = trail {
            wait(trail.read(Stream::STATS, Position::default(), &mut count))?;
        }
        let mut tools: Vec<ToolStats> = tools.into_iter().map(|(tool, totals)| ToolStats { tool, totals }).collect();
        tools.sort_by(|a, b| b.totals.calls.cmp(&a.totals.calls).then_with(|| a.tool.cmp(&b.tool)));
        let (timeline, bar_seconds) =
            timeline(period, &hours, now, |hour| hour.context_saved(&assumptions, tool.is_some()));
        Ok(Self {
            period,
            tool: tool.map(str::to_owned),
            generated: now,
            calls,
            runs,
            tools,
            assumptions,
            timeline,
            bar_seconds,
        })
    }

    /// Tokens of context that would have been spent without one tool for all: what never reached the model, minus the
    /// cost of the runs; or a configured number for each successful call. For one tool, only its results count.
    pub fn context_saved(&self) -> u64 {
        if let Some(flat) = self.assumptions.context_per_call {
            return self.useful_calls().saturating_mul(flat);
        }
        let bytes = if self.tool.is_some() {
            self.useful_tools().map(|tool| tool.totals.chars_out).sum()
        } else {
            self.runs.saved.kept.saturating_sub(self.runs.saved.cost)
        };
        self.assumptions.tokens(bytes)
    }

    /// Milliseconds of calls that ran concurrently with others; or a configured number for each successful call.
    pub fn time_saved_ms(&self) -> u64 {
        match self.assumptions.time_overhead_per_call_ms {
            Some(flat) => self.useful_calls().saturating_mul(flat),
            None if self.tool.is_some() => 0,
            None => self.runs.saved.together_ms.round() as u64,
        }
    }

    /// Explains how `context_saved` and `time_saved_ms` were computed.
    pub fn computed(&self) -> [(&'static str, String); 2] {
        let assumed = &self.assumptions;
        let context = match assumed.context_per_call {
            Some(flat) => format!(
                "configured: {flat} tokens for each of {} successful calls (stats.context_per_call)",
                self.useful_calls()
            ),
            None if self.tool.is_some() => {
                format!("measured: bytes of results, {} characters a token", assumed.chars_per_token)
            }
            None => format!(
                "measured: {} bytes of results and definitions kept out of the context, less {} bytes of commands and \
                 answers, {} characters a token",
                self.runs.saved.kept, self.runs.saved.cost, assumed.chars_per_token
            ),
        };
        let time = match assumed.time_overhead_per_call_ms {
            Some(flat) => format!(
                "configured: {flat} ms for each of {} successful calls (stats.time_overhead_per_call_ms)",
                self.useful_calls()
            ),
            None if self.tool.is_some() => "not measured for a single tool".to_owned(),
            None => "measured: calls that ran at the same time as others".to_owned(),
        };
        [("context_saved", context), ("time_saved_ms", time)]
    }

    /// Tools whose calls save something: inspecting the toolbox itself does not.
    fn useful_tools(&self) -> impl Iterator<Item = &ToolStats> {
        self.tools.iter().filter(|tool| !tool.tool.starts_with("ot."))
    }

    fn useful_calls(&self) -> u64 {
        self.useful_tools().map(|tool| tool.totals.calls.saturating_sub(tool.totals.errors)).sum()
    }

    /// The saved context in US dollars.
    pub fn savings_usd(&self) -> f64 {
        rounded(self.context_saved() as f64 / 1e6 * self.assumptions.input_cost, 1e4)
    }

    /// The cost in US dollars of what the model wrote (the commands) and read (the replies). For one tool: its share.
    pub fn cost_usd(&self) -> f64 {
        let counted = if self.tool.is_none() && self.runs.calls > 0 { &self.runs } else { &self.calls };
        let tokens = |chars: u64| chars as f64 / self.assumptions.chars_per_token.max(f64::MIN_POSITIVE);
        let written = tokens(counted.chars_in) / 1e6 * self.assumptions.output_cost;
        let read = tokens(counted.chars_out) / 1e6 * self.assumptions.input_cost;
        rounded(written + read, 1e4)
    }

    pub fn to_value(&self) -> Value {
        let mut fields = vec![("period", Value::from(self.period.name()))];
        if let Some(tool) = &self.tool {
            fields.push(("tool", tool.as_str().into()));
        } else {
            fields.push(("total_runs", number(self.runs.calls)));
        }
        fields.extend([
            ("total_calls", number(self.calls.calls)),
            ("success_rate", Value::Float(self.calls.success_rate())),
            ("errors", number(self.calls.errors)),
            ("avg_ms", Value::Float(self.calls.average_ms())),
            ("chars_in", number(self.calls.chars_in)),
            ("chars_out", number(self.calls.chars_out)),
            ("context_saved", number(self.context_saved())),
            ("time_saved_ms", number(self.time_saved_ms())),
            ("savings_usd", Value::Float(self.savings_usd())),
            ("cost_usd", Value::Float(self.cost_usd())),
            ("computed", dict(self.computed().map(|(key, text)| (key, Value::Str(text))).into())),
            ("tools", Value::List(self.tools.iter().map(ToolStats::to_value).collect())),
        ]);
        dict(fields)
    }

    /// When the report was created, for display.
    pub(super) fn generated_text(&self) -> String {
        self.generated.format("%Y-%m-%d %H:%M UTC").to_string()
    }
}

impl ToolStats {
    fn to_value(&self) -> Value {
        let totals = &self.totals;
        let mut fields = vec![
            ("tool", Value::from(self.tool.as_str())),
            ("calls", number(totals.calls)),
            ("success_rate", Value::Float(totals.success_rate())),
            ("avg_ms", Value::Float(totals.average_ms())),
            ("max_ms", Value::Float(rounded(totals.max_ms, 10.0))),
            ("chars_in", number(totals.chars_in)),
            ("chars_out", number(totals.chars_out)),
        ];
        if !totals.error_types.is_empty() {
            let types = totals.error_types.iter().map(|(name, count)| (Value::from(name.as_str()), number(*count)));
            fields.push(("errors", Value::Dict(types.collect())));
        }
        dict(fields)
    }
}

fn is_of(tool: &str, wanted: &str) -> bool {
    tool == wanted || tool.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
}

fn number(value: u64) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn dict(fields: Vec<(&str, Value)>) -> Value {
    Value::Dict(fields.into_iter().map(|(key, value)| (Value::from(key), value)).collect())
}

/// Bars from the beginning of the period to now, including empty ones.
fn timeline(
    period: Period,
    hours: &BTreeMap<i64, Hour>,
    now: DateTime<Utc>,
    context_saved: impl Fn(&Hour) -> u64,
) -> (Vec<Bar>, i64) {
    let current = now.timestamp().div_euclid(HOUR);
    let first_hour = hours.keys().next().copied().unwrap_or(current).min(current);
    let (bar, bars) = match period {
        Period::Day => (HOUR, 24),
        Period::Week => (DAY, 7),
        Period::Month => (DAY, 30),
        Period::All => {
            let days = (current - first_hour) / 24 + 1;
            let days_a_bar = (days + TIMELINE_BARS - 1) / TIMELINE_BARS;
            if days <= 2 {
                (HOUR, (current - first_hour + 1).max(FEWEST_BARS))
            } else {
                (days_a_bar * DAY, days / days_a_bar + 1)
            }
        }
    };
    let last = now.timestamp().div_euclid(bar);
    let start = last - bars + 1;
    let mut sums = vec![Hour::default(); usize::try_from(bars).unwrap_or_default()];
    for (hour, counted) in hours {
        // Calls before the first whole bar are counted there rather than lost.
        let index = ((hour * HOUR).div_euclid(bar) - start).clamp(0, bars - 1);
        if let Some(sum) = usize::try_from(index).ok().and_then(|index| sums.get_mut(index)) {
            sum.add(counted);
        }
    }
    let of = |(index, sum): (i64, &Hour)| {
        let start = DateTime::from_timestamp(index * bar, 0)?;
        Some(Bar { start, calls: sum.calls, errors: sum.errors, context_saved: context_saved(sum) })
    };
    let timeline = (start..=last).zip(&sums).filter_map(of).collect();
    (timeline, bar)
}
