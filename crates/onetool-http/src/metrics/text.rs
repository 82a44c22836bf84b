//! The text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use super::{BOUNDS, HistogramValue, Kind, Measured, Metrics};

pub(super) fn write(metrics: &Metrics) -> String {
    let mut text = String::with_capacity(8 << 10);
    for family in &metrics.families {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
        let name = family.name;
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for sample in &family.samples {
            let labels = labels(&sample.labels);
            match &sample.value {
                Measured::Number(value) => {
                    let _ = writeln!(text, "{name}{} {value}", braced(&labels));
                }
                Measured::Distribution(value) => distribution(&mut text, name, &labels, value),
            }
        }
    }
    text
}

fn distribution(text: &mut String, name: &str, labels: &str, value: &HistogramValue) {
    let mut up_to = 0;
    let bounds = BOUNDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (bound, count) in bounds.zip(value.buckets) {
        up_to += count;
        let separator = if labels.is_empty() { "" } else { "," };
        let _ = writeln!(text, "{name}_bucket{{{labels}{separator}le=\"{bound}\"}} {up_to}");
    }
    let labels = braced(labels);
    let _ = writeln!(text, "{name}_sum{labels} {}\n{name}_count{labels} {}", value.sum, value.count);
}

fn labels(labels: &[(&'static str, String)]) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    labels.join(",")
}

fn braced(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Histogram, Kind, Metrics};

    #[test]
    fn labels_are_escaped_and_buckets_add_up() {
        let mut metrics = Metrics::default();
        metrics.family(Kind::Counter, "a_total", "One\nline.").count("pack", "a\"b\\c\nd", 3);
        let histogram = Histogram::default();
        for took in [Duration::from_millis(1), Duration::from_millis(700), Duration::from_secs(1000)] {
            histogram.add(took);
        }
        metrics.family(Kind::Histogram, "took_seconds", "Time.").distribution(Vec::new(), &histogram);
        let text = metrics.text();
        assert!(text.starts_with("# HELP a_total One\\nline.\n# TYPE a_total counter\n"), "{text}");
        assert!(text.contains("a_total{pack=\"a\\\"b\\\\c\\nd\"} 3\n"), "{text}");
        assert!(text.contains("took_seconds_bucket{le=\"0.001\"} 1\n"), "{text}");
        assert!(text.contains("took_seconds_bucket{le=\"1\"} 2\n"), "{text}");
        assert!(text.contains("took_seconds_bucket{le=\"+Inf\"} 3\n"), "{text}");
        assert!(text.ends_with("took_seconds_sum 1000.701\ntook_seconds_count 3\n"), "{text}");
    }
}
