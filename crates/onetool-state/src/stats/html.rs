//! The report as one page: no script, nothing from the network, light and dark as the reader likes it.
//!
//! Every text that comes from a record goes through [`escape`]; the page's own policy forbids scripts on top of that.

use std::fmt::Write as _;

use super::report::{Bar, Report, ToolStats};

/// Tools that the charts show.
const CHARTED_TOOLS: usize = 15;
/// Tools that the table lists.
const LISTED_TOOLS: usize = 200;
/// A name in a chart is cut here.
const CHARTED_NAME: usize = 40;

const STYLE: &str = include_str!("report.css");

/// The whole page.
pub fn render_html(report: &Report) -> String {
    let mut page = String::with_capacity(32 * 1024);
    let scope = report.tool.as_deref().map_or_else(|| "all tools".to_owned(), escape);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>OneTool statistics</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header><h1>OneTool statistics</h1><span class=\"soft\">{} · {scope} · {}</span></header>\n",
        period_text(report),
        escape(&report.generated_text()),
    );
    cards(report, &mut page);
    section("Calls over time", &timeline(report), &mut page);
    page.push_str("<div class=\"two\">\n");
    section("Most called", &calls_chart(report), &mut page);
    section("Slowest", &slowest_chart(report), &mut page);
    page.push_str("</div>\n");
    section("Errors", &errors_table(report), &mut page);
    section("All tools", &tools_table(report), &mut page);
    let assumed = &report.assumptions;
    let _ = write!(
        page,
        "<footer>Savings assume {} tokens of context and {} ms for each call; costs {} and {} US dollars a million \
         tokens in and out, {} characters a token.</footer>\n</main>\n</body>\n</html>\n",
        grouped(assumed.context_per_call),
        grouped(assumed.time_overhead_per_call_ms),
        assumed.input_cost,
        assumed.output_cost,
        assumed.chars_per_token,
    );
    page
}

fn period_text(report: &Report) -> &'static str {
    match report.period.name() {
        "day" => "last 24 hours",
        "week" => "last 7 days",
        "month" => "last 30 days",
        _ => "all time",
    }
}

fn section(title: &str, content: &str, page: &mut String) {
    let _ = write!(page, "<section class=\"card\"><h2>{title}</h2>\n{content}</section>\n");
}

fn cards(report: &Report, page: &mut String) {
    let calls = &report.calls;
    let runs = if report.tool.is_none() { format!("in {} runs", grouped(report.runs.calls)) } else { String::new() };
    let figures = [
        ("Calls", grouped(calls.calls), runs),
        ("Success", format!("{:.1}%", calls.success_rate()), format!("{} failed", grouped(calls.errors))),
        ("Average time", milliseconds(calls.average_ms()), format!("longest {}", milliseconds(calls.max_ms))),
        ("Context saved", compact(report.context_saved()), "tokens, estimated".to_owned()),
        ("Time saved", duration(report.time_saved_ms()), "estimated".to_owned()),
        ("Money saved", dollars(report.savings_usd()), format!("spent about {}", dollars(report.cost_usd()))),
    ];
    page.push_str("<div class=\"cards\">\n");
    for (label, figure, note) in figures {
        let _ = writeln!(
            page,
            "<div class=\"card\"><div class=\"label\">{label}</div><div class=\"figure\">{figure}</div>\
             <div class=\"note\">{note}</div></div>"
        );
    }
    page.push_str("</div>\n");
}

/// Bars of calls, failed ones at the foot in another colour.
fn timeline(report: &Report) -> String {
    const WIDTH: f64 = 1000.0;
    const HEIGHT: f64 = 220.0;
    const LEFT: f64 = 46.0;
    const FOOT: f64 = 26.0;
    const TOP: f64 = 10.0;
    if report.calls.calls == 0 {
        return nothing();
    }
    let bars = &report.timeline;
    let top = nice_ceiling(bars.iter().map(|bar| bar.calls).max().unwrap_or(1));
    let plot = HEIGHT - FOOT - TOP;
    let step = (WIDTH - LEFT) / bars.len().max(1) as f64;
    let width = (step * 0.72).clamp(2.0, 60.0);
    let mut svg = format!(
        "<div class=\"scroll\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Calls over time\">\n"
    );
    for quarter in 0..=4_u32 {
        let share = f64::from(quarter) / 4.0;
        let y = TOP + plot * (1.0 - share);
        let value = top as f64 * share;
        let _ = writeln!(svg, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        if quarter % 2 == 0 {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                compact(value as u64)
            );
        }
    }
    let every = bars.len().div_ceil(10).max(1);
    for (index, bar) in bars.iter().enumerate() {
        let x = LEFT + step * index as f64 + (step - width) / 2.0;
        let label = bar_label(bar, report.bar_seconds);
        if bar.calls > 0 {
            let height = (plot * bar.calls as f64 / top as f64).max(1.5);
            let failed = height * bar.errors.min(bar.calls) as f64 / bar.calls as f64;
            let y = TOP + plot - height;
            let _ = write!(svg, "<g><title>{label}: {} calls, {} failed</title>", bar.calls, bar.errors);
            let _ = write!(
                svg,
                "<rect class=\"ok\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\"/>"
            );
            if failed > 0.0 {
                let y = TOP + plot - failed;
                let _ = write!(
                    svg,
                    "<rect class=\"err\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{failed:.1}\"/>"
                );
            }
            svg.push_str("</g>\n");
        }
        if index % every == 0 {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                x + width / 2.0,
                HEIGHT - 6.0
            );
        }
    }
    svg.push_str("</svg></div>\n<div class=\"legend\"><span><i style=\"background:var(--bar)\"></i>calls</span>");
    svg.push_str("<span><i style=\"background:var(--bad)\"></i>failed</span></div>\n");
    svg
}

fn bar_label(bar: &Bar, seconds: i64) -> String {
    let format = if seconds < 24 * 3600 { "%H:%M" } else { "%b %-d" };
    bar.start.format(format).to_string()
}

fn calls_chart(report: &Report) -> String {
    let rows: Vec<Row<'_>> = report
        .tools
        .iter()
        .take(CHARTED_TOOLS)
        .map(|tool| Row {
            name: &tool.tool,
            amount: tool.totals.calls as f64,
            failed: tool.totals.errors as f64,
            text: grouped(tool.totals.calls),
        })
        .collect();
    horizontal(&rows, "Calls of each tool")
}

fn slowest_chart(report: &Report) -> String {
    let mut slowest: Vec<&ToolStats> = report.tools.iter().collect();
    slowest.sort_by(|a, b| b.totals.average_ms().total_cmp(&a.totals.average_ms()));
    let rows: Vec<Row<'_>> = slowest
        .into_iter()
        .take(CHARTED_TOOLS)
        .map(|tool| Row {
            name: &tool.tool,
            amount: tool.totals.average_ms(),
            failed: 0.0,
            text: format!("{} · max {}", milliseconds(tool.totals.average_ms()), milliseconds(tool.totals.max_ms)),
        })
        .collect();
    horizontal(&rows, "Average time of each tool")
}

struct Row<'a> {
    name: &'a str,
    amount: f64,
    failed: f64,
    text: String,
}

/// A bar a row, the name above it.
fn horizontal(rows: &[Row<'_>], label: &str) -> String {
    const WIDTH: f64 = 480.0;
    const ROW: f64 = 34.0;
    if rows.is_empty() {
        return nothing();
    }
    let largest = rows.iter().map(|row| row.amount).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{label}\">\n", ROW * rows.len() as f64);
    for (index, row) in rows.iter().enumerate() {
        let y = ROW * index as f64;
        let width = (WIDTH * row.amount / largest).max(2.0);
        let failed = if row.amount > 0.0 { width * (row.failed / row.amount).min(1.0) } else { 0.0 };
        let full = escape(row.name);
        let name = escape(&shortened(row.name));
        let _ = writeln!(
            svg,
            "<g><title>{full}: {}</title><text class=\"name\" x=\"0\" y=\"{:.1}\">{name}</text>\
             <text class=\"value\" x=\"{WIDTH}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"track\" x=\"0\" y=\"{:.1}\" width=\"{WIDTH}\" height=\"8\" rx=\"4\"/>\
             <rect class=\"ok\" x=\"0\" y=\"{:.1}\" width=\"{width:.1}\" height=\"8\" rx=\"4\"/>",
            row.text,
            y + 13.0,
            y + 13.0,
            row.text,
            y + 19.0,
            y + 19.0,
        );
        if failed > 0.0 {
            let _ = write!(
                svg,
                "<rect class=\"err\" x=\"0\" y=\"{:.1}\" width=\"{failed:.1}\" height=\"8\" rx=\"4\"/>",
                y + 19.0
            );
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn errors_table(report: &Report) -> String {
    let mut failing: Vec<&ToolStats> = report.tools.iter().filter(|tool| tool.totals.errors > 0).collect();
    if failing.is_empty() {
        return "<div class=\"empty\">No call failed.</div>\n".to_owned();
    }
    failing.sort_by(|a, b| {
        a.totals.success_rate().total_cmp(&b.totals.success_rate()).then(b.totals.errors.cmp(&a.totals.errors))
    });
    let mut table = "<div class=\"scroll\"><table><thead><tr><th>Tool</th><th class=\"n\">Error rate</th>\
                     <th class=\"n\">Failed</th><th>What</th></tr></thead><tbody>\n"
        .to_owned();
    for tool in failing.into_iter().take(LISTED_TOOLS) {
        let mut types: Vec<(&String, &u64)> = tool.totals.error_types.iter().collect();
        types.sort_by(|a, b| b.1.cmp(a.1));
        let types: Vec<String> =
            types.into_iter().take(5).map(|(name, count)| format!("{} ({count})", escape(name))).collect();
        let _ = writeln!(
            table,
            "<tr><td class=\"tool\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            escape(&tool.tool),
            rate(100.0 - tool.totals.success_rate()),
            grouped(tool.totals.errors),
            types.join(", "),
        );
    }
    table.push_str("</tbody></table></div>\n");
    table
}

fn rate(percent: f64) -> String {
    let class = match percent {
        rate if rate >= 20.0 => "bad",
        rate if rate >= 5.0 => "warm",
        _ => "good",
    };
    format!("<span class=\"rate {class}\">{percent:.1}%</span>")
}

fn tools_table(report: &Report) -> String {
    if report.tools.is_empty() {
        return nothing();
    }
    let mut table = "<div class=\"scroll\"><table><thead><tr><th>Tool</th><th class=\"n\">Calls</th>\
                     <th class=\"n\">Success</th><th class=\"n\">Average</th><th class=\"n\">Longest</th>\
                     <th class=\"n\">Characters in</th><th class=\"n\">Characters out</th></tr></thead><tbody>\n"
        .to_owned();
    for tool in report.tools.iter().take(LISTED_TOOLS) {
        let totals = &tool.totals;
        let _ = writeln!(
            table,
            "<tr><td class=\"tool\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.1}%</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            escape(&tool.tool),
            grouped(totals.calls),
            totals.success_rate(),
            milliseconds(totals.average_ms()),
            milliseconds(totals.max_ms),
            grouped(totals.chars_in),
            grouped(totals.chars_out),
        );
    }
    table.push_str("</tbody></table></div>\n");
    if report.tools.len() > LISTED_TOOLS {
        let _ = writeln!(table, "<div class=\"soft\">and {} more</div>", report.tools.len() - LISTED_TOOLS);
    }
    table
}

fn nothing() -> String {
    "<div class=\"empty\">No calls in this period.</div>\n".to_owned()
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(CHARTED_NAME) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

/// Makes a text safe in HTML, as content and as an attribute.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
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

/// The next round number of which a quarter is whole: 4, 8, 12, 16, 20, 24, 32, 40, 60, 80, 100, 120, …
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
