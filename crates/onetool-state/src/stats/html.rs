//! The report as one page: no script, nothing from the network, light or dark by the reader's preference.
//!
//! This module computes figures and their positions; `report.html` is the page. The template engine escapes every text;
//! in addition, the page's own policy forbids scripts.

use minijinja::Environment;
use serde::Serialize;

use super::report::{Bar, Report, ToolStats};

/// Maximum number of tools in the charts.
const CHARTED_TOOLS: usize = 15;
/// Maximum number of tools in the table.
const LISTED_TOOLS: usize = 200;
/// Maximum length of a name in a chart.
const CHARTED_NAME: usize = 40;
/// Maximum number of error types listed for each tool.
const NAMED_ERRORS: usize = 5;

const STYLE: &str = include_str!("report.css");
const TEMPLATE: &str = include_str!("report.html");

/// The whole page.
pub fn render_html(report: &Report) -> String {
    let mut environment = Environment::new();
    // The file extension enables escaping.
    let rendered = environment
        .add_template("report.html", TEMPLATE)
        .and_then(|()| environment.get_template("report.html"))
        .and_then(|template| template.render(minijinja::value::Serde(Page::new(report))));
    rendered.unwrap_or_else(|error| {
        tracing::error!(%error, "the report could not be rendered");
        "the report could not be rendered; see the log\n".to_owned()
    })
}

#[derive(Serialize)]
struct Page {
    style: &'static str,
    period: &'static str,
    scope: String,
    generated: String,
    cards: Vec<Card>,
    timeline: Timeline,
    most_called: Chart,
    slowest: Chart,
    failing: Vec<FailingTool>,
    tools: Vec<ListedTool>,
    /// Number of tools that the table omits.
    more_tools: usize,
    footer: String,
}

#[derive(Serialize)]
struct Card {
    label: &'static str,
    figure: String,
    note: String,
}

#[derive(Serialize)]
struct FailingTool {
    name: String,
    class: &'static str,
    rate: String,
    failed: String,
    types: String,
}

#[derive(Serialize)]
struct ListedTool {
    name: String,
    figures: [String; 6],
}

impl Page {
    fn new(report: &Report) -> Self {
        let assumed = &report.assumptions;
        let computed = report.computed();
        Self {
            style: STYLE,
            period: period_text(report),
            scope: report.tool.as_deref().map_or_else(|| "all tools".to_owned(), plain),
            generated: report.generated_text(),
            cards: cards(report),
            timeline: Timeline::new(report),
            most_called: most_called(report),
            slowest: slowest(report),
            failing: failing(report),
            tools: report.tools.iter().take(LISTED_TOOLS).map(ListedTool::new).collect(),
            more_tools: report.tools.len().saturating_sub(LISTED_TOOLS),
            footer: format!(
                "Context saved, {}. Time saved, {}. Costs {} and {} US dollars a million tokens in and out, {} \
                 characters a token.",
                computed[0].1, computed[1].1, assumed.input_cost, assumed.output_cost, assumed.chars_per_token,
            ),
        }
    }
}

impl ListedTool {
    fn new(tool: &ToolStats) -> Self {
        let totals = &tool.totals;
        Self {
            name: plain(&tool.tool),
            figures: [
                grouped(totals.calls),
                format!("{:.1}%", totals.success_rate()),
                milliseconds(totals.average_ms()),
                milliseconds(totals.max_ms),
                grouped(totals.chars_in),
                grouped(totals.chars_out),
            ],
        }
    }
}

/// Whether a figure was measured or is based on the configuration.
fn way(flat: Option<u64>) -> &'static str {
    if flat.is_some() { "as configured" } else { "measured" }
}

fn period_text(report: &Report) -> &'static str {
    match report.period.name() {
        "day" => "last 24 hours",
        "week" => "last 7 days",
        "month" => "last 30 days",
        _ => "all time",
    }
}

fn cards(report: &Report) -> Vec<Card> {
    let calls = &report.calls;
    let runs = if report.tool.is_none() { format!("in {} runs", grouped(report.runs.calls)) } else { String::new() };
    let figures = [
        ("Calls", grouped(calls.calls), runs),
        ("Success", format!("{:.1}%", calls.success_rate()), format!("{} failed", grouped(calls.errors))),
        ("Average time", milliseconds(calls.average_ms()), format!("longest {}", milliseconds(calls.max_ms))),
        (
            "Context saved",
            compact(report.context_saved()),
            format!("tokens, {}", way(report.assumptions.context_per_call)),
        ),
        ("Time saved", duration(report.time_saved_ms()), way(report.assumptions.time_overhead_per_call_ms).to_owned()),
        ("Money saved", dollars(report.savings_usd()), format!("spent about {}", dollars(report.cost_usd()))),
    ];
    figures.into_iter().map(|(label, figure, note)| Card { label, figure, note }).collect()
}

/// Bars of calls, with failed ones at the bottom in another colour.
#[derive(Serialize)]
struct Timeline {
    width: f64,
    height: f64,
    left: f64,
    label_y: f64,
    bar_width: String,
    grid: Vec<GridLine>,
    bars: Vec<TimeBar>,
}

#[derive(Serialize)]
struct GridLine {
    y: String,
    /// Every other line has one.
    label: Option<String>,
    text_x: String,
    text_y: String,
}

#[derive(Serialize)]
struct TimeBar {
    label: String,
    is_labelled: bool,
    label_x: String,
    calls: u64,
    errors: u64,
    x: String,
    y: String,
    height: String,
    failed_y: String,
    /// Present if some calls failed.
    failed_height: Option<String>,
}

impl Timeline {
    const WIDTH: f64 = 1000.0;
    const HEIGHT: f64 = 220.0;
    const LEFT: f64 = 46.0;
    const FOOT: f64 = 26.0;
    const TOP: f64 = 10.0;
    const PLOT: f64 = Self::HEIGHT - Self::FOOT - Self::TOP;

    fn new(report: &Report) -> Self {
        let bars = if report.calls.calls == 0 { &[][..] } else { &report.timeline[..] };
        let top = nice_ceiling(bars.iter().map(|bar| bar.calls).max().unwrap_or(1));
        let step = (Self::WIDTH - Self::LEFT) / bars.len().max(1) as f64;
        let width = (step * 0.72).clamp(2.0, 60.0);
        let every = bars.len().div_ceil(10).max(1);
        let bar = |(index, bar): (usize, &Bar)| {
            let x = Self::LEFT + step * index as f64 + (step - width) / 2.0;
            let height = (Self::PLOT * bar.calls as f64 / top as f64).max(1.5);
            let failed =
                if bar.calls == 0 { 0.0 } else { height * bar.errors.min(bar.calls) as f64 / bar.calls as f64 };
            TimeBar {
                label: bar_label(bar, report.bar_seconds),
                is_labelled: index.is_multiple_of(every),
                label_x: place(x + width / 2.0),
                calls: bar.calls,
                errors: bar.errors,
                x: place(x),
                y: place(Self::TOP + Self::PLOT - height),
                height: place(height),
                failed_y: place(Self::TOP + Self::PLOT - failed),
                failed_height: (failed > 0.0).then(|| place(failed)),
            }
        };
        let grid = |quarter: u32| {
            let share = f64::from(quarter) / 4.0;
            let y = Self::TOP + Self::PLOT * (1.0 - share);
            GridLine {
                y: place(y),
                label: quarter.is_multiple_of(2).then(|| compact((top as f64 * share) as u64)),
                text_x: place(Self::LEFT - 8.0),
                text_y: place(y + 4.0),
            }
        };
        Self {
            width: Self::WIDTH,
            height: Self::HEIGHT,
            left: Self::LEFT,
            label_y: Self::HEIGHT - 6.0,
            bar_width: place(width),
            grid: (0..=4).map(grid).collect(),
            bars: bars.iter().enumerate().map(bar).collect(),
        }
    }
}

fn bar_label(bar: &Bar, seconds: i64) -> String {
    let format = if seconds < 24 * 3600 { "%H:%M" } else { "%b %-d" };
    bar.start.format(format).to_string()
}

/// One bar per row, with the name above it.
#[derive(Serialize)]
struct Chart {
    width: f64,
    height: f64,
    rows: Vec<ChartRow>,
}

#[derive(Serialize)]
struct ChartRow {
    name: String,
    short: String,
    text: String,
    text_y: String,
    bar_y: String,
    length: String,
    /// Present if some calls failed.
    failed: Option<String>,
}

/// The data of a row.
struct Amount<'a> {
    name: &'a str,
    amount: f64,
    failed: f64,
    text: String,
}

impl Chart {
    const WIDTH: f64 = 480.0;
    const ROW: f64 = 34.0;

    fn new(amounts: Vec<Amount<'_>>) -> Self {
        let largest = amounts.iter().map(|row| row.amount).fold(f64::MIN_POSITIVE, f64::max);
        let row = |(index, row): (usize, Amount<'_>)| {
            let y = Self::ROW * index as f64;
            let length = (Self::WIDTH * row.amount / largest).max(2.0);
            let failed = if row.amount > 0.0 { length * (row.failed / row.amount).min(1.0) } else { 0.0 };
            ChartRow {
                name: plain(row.name),
                short: shortened(&plain(row.name)),
                text: row.text,
                text_y: place(y + 13.0),
                bar_y: place(y + 19.0),
                length: place(length),
                failed: (failed > 0.0).then(|| place(failed)),
            }
        };
        Self {
            width: Self::WIDTH,
            height: Self::ROW * amounts.len() as f64,
            rows: amounts.into_iter().enumerate().map(row).collect(),
        }
    }
}

fn most_called(report: &Report) -> Chart {
    let amounts = report.tools.iter().take(CHARTED_TOOLS).map(|ToolStats { tool, totals }| Amount {
        name: tool,
        amount: totals.calls as f64,
        failed: totals.errors as f64,
        text: grouped(totals.calls),
    });
    Chart::new(amounts.collect())
}

fn slowest(report: &Report) -> Chart {
    let mut slowest: Vec<&ToolStats> = report.tools.iter().collect();
    slowest.sort_by(|a, b| b.totals.average_ms().total_cmp(&a.totals.average_ms()));
    let amounts = slowest.into_iter().take(CHARTED_TOOLS).map(|tool| {
        let average = tool.totals.average_ms();
        let text = format!("{} · max {}", milliseconds(average), milliseconds(tool.totals.max_ms));
        Amount { name: &tool.tool, amount: average, failed: 0.0, text }
    });
    Chart::new(amounts.collect())
}

fn failing(report: &Report) -> Vec<FailingTool> {
    let mut failing: Vec<&ToolStats> = report.tools.iter().filter(|tool| tool.totals.errors > 0).collect();
    failing.sort_by(|a, b| {
        a.totals.success_rate().total_cmp(&b.totals.success_rate()).then(b.totals.errors.cmp(&a.totals.errors))
    });
    failing.into_iter().take(LISTED_TOOLS).map(FailingTool::new).collect()
}

impl FailingTool {
    fn new(tool: &ToolStats) -> Self {
        let mut types: Vec<(&String, &u64)> = tool.totals.error_types.iter().collect();
        types.sort_by(|a, b| b.1.cmp(a.1));
        let types = types.into_iter().take(NAMED_ERRORS).map(|(name, count)| format!("{} ({count})", plain(name)));
        let percent = 100.0 - tool.totals.success_rate();
        Self {
            name: plain(&tool.tool),
            class: match percent {
                rate if rate >= 20.0 => "bad",
                rate if rate >= 5.0 => "warm",
                _ => "good",
            },
            rate: format!("{percent:.1}%"),
            failed: grouped(tool.totals.errors),
            types: types.collect::<Vec<_>>().join(", "),
        }
    }
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(CHARTED_NAME) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

/// A text without control characters; the template escapes the rest.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Formats a coordinate.
fn place(value: f64) -> String {
    format!("{value:.1}")
}

/// 1234567 as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// 1234567 as `1.2M`.
fn compact(number: u64) -> String {
    let value = number as f64;
    match number {
        0..10_000 => grouped(number),
        10_000..1_000_000 => format!("{:.0}k", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}M", value / 1e6),
        _ => format!("{:.1}B", value / 1e9),
    }
}

fn dollars(amount: f64) -> String {
    let cents = (amount * 100.0).round() as u64;
    format!("${}.{:02}", grouped(cents / 100), cents % 100)
}

fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1000.0),
    }
}

fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

/// The next round number that is divisible by four: 4, 8, 12, 16, 20, 24, 32, 40, 60, 80, 100, 120, …
fn nice_ceiling(largest: u64) -> u64 {
    let mut decade = 4_u64;
    loop {
        for tenths in [10, 15, 20, 25, 30, 40, 50, 60, 80] {
            let ceiling = decade / 10 * tenths + decade % 10 * tenths / 10;
            if ceiling >= largest && ceiling.is_multiple_of(4) {
                return ceiling;
            }
        }
        match decade.checked_mul(10) {
            Some(next) if next < u64::MAX / 100 => decade = next,
            _ => return largest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_ends_a_little_above_its_largest_bar() {
        let ceilings = [0, 1, 4, 5, 17, 21, 41, 101, 204, 999, 1_000_000].map(nice_ceiling);
        assert_eq!(ceilings, [4, 4, 4, 8, 20, 24, 60, 120, 240, 1_000, 1_000_000]);
        assert!(nice_ceiling(u64::MAX) == u64::MAX);
    }

    #[test]
    fn figures_read_well() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([9_999, 10_000, 4_600_000].map(compact), ["9,999", "10k", "4.6M"]);
        assert_eq!([0.04, 12.3, 2_500.0].map(milliseconds), ["0.0 ms", "12 ms", "2.5 s"]);
        assert_eq!(dollars(1_620.9), "$1,620.90");
    }
}
