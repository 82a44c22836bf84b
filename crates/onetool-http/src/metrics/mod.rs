//! Measurements of a server, for `/metrics` and other collectors.
//!
//! Each component adds families to a [`Metrics`]; [`Metrics::text`] writes them in the Prometheus text format. Labels
//! come from fixed sets, or are capped: values beyond [`MAX_LABELS`] count as `other`.

mod histogram;
mod process;
mod requests;
mod route;
mod site;
mod text;

pub use histogram::{BOUNDS, Histogram, HistogramValue};
pub(crate) use process::{process, started};
pub(crate) use requests::Requests;
pub(crate) use route::{MetricsRoute, routed, router};
pub(crate) use site::SiteMeasures;

/// Maximum number of values of one label, such as packs; more count as [`OTHER`].
pub const MAX_LABELS: usize = 100;
pub const OTHER: &str = "other";

/// The kind of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    Number(f64),
    Distribution(HistogramValue),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub labels: Vec<(&'static str, String)>,
    pub value: Measured,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    pub samples: Vec<Sample>,
}

/// A snapshot of all measurements.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    pub families: Vec<Family>,
}

impl Metrics {
    pub fn family(&mut self, kind: Kind, name: &'static str, help: &'static str) -> FamilyWriter<'_> {
        self.families.push(Family { name, help, kind, samples: Vec::new() });
        let at = self.families.len() - 1;
        FamilyWriter(&mut self.families[at].samples)
    }

    /// Adds a family with a single number.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    pub fn number(&mut self, kind: Kind, name: &'static str, help: &'static str, value: u64) {
        self.family(kind, name, help).add(Vec::new(), value as f64);
    }

    /// Returns the Prometheus text format.
    pub fn text(&self) -> String {
        text::write(self)
    }
}

/// Adds samples to one family.
pub struct FamilyWriter<'a>(&'a mut Vec<Sample>);

impl FamilyWriter<'_> {
    pub fn add(&mut self, labels: Vec<(&'static str, String)>, value: f64) {
        self.0.push(Sample { labels, value: Measured::Number(value) });
    }

    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    pub fn count(&mut self, label: &'static str, value: &str, count: u64) {
        self.add(vec![(label, value.to_owned())], count as f64);
    }

    pub fn distribution(&mut self, labels: Vec<(&'static str, String)>, histogram: &Histogram) {
        self.0.push(Sample { labels, value: Measured::Distribution(histogram.value()) });
    }
}
