//! The figures of one run, the bars of DESIGN section 6 they are held to, as a table and as JSON.
//!
//! Owns the shape of a figure. It must not know how one is measured.

use comfy_table::{Table, presets};
use serde_json::{Value, json};

/// What a figure is compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bar {
    /// No bar; the figure is shown beside others.
    Shown,
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Bar {
    fn met(self, value: f64) -> Option<bool> {
        match self {
            Self::Shown => None,
            Self::AtMost(bar) => Some(value <= bar),
            Self::AtLeast(bar) => Some(value >= bar),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Shown => String::new(),
            Self::AtMost(bar) => format!("<= {}", round(bar)),
            Self::AtLeast(bar) => format!(">= {}", round(bar)),
        }
    }
}

/// One line of the report.
#[derive(Debug)]
struct Figure {
    what: String,
    ours: f64,
    baseline: Option<f64>,
    unit: &'static str,
    judged: f64,
    judged_unit: &'static str,
    bar: Bar,
}

/// All lines.
#[derive(Debug, Default)]
pub(crate) struct Report {
    figures: Vec<Figure>,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A figure judged by its ratio to a baseline.
    pub(crate) fn ratio(&mut self, what: &str, ours: f64, baseline: f64, unit: &'static str, ratio: f64, bar: Bar) {
        let figure = Figure { what: what.into(), ours, baseline: Some(baseline), unit, judged: ratio, judged_unit: "x", bar };
        self.push(figure);
    }

    /// A figure judged by itself.
    pub(crate) fn plain(&mut self, what: &str, ours: f64, unit: &'static str, bar: Bar) {
        self.push(Figure { what: what.into(), ours, baseline: None, unit, judged: ours, judged_unit: unit, bar });
    }

    /// A figure judged by itself, shown beside its baseline.
    pub(crate) fn beside(&mut self, what: &str, ours: f64, baseline: f64, unit: &'static str, bar: Bar) {
        let baseline = Some(baseline);
        self.push(Figure { what: what.into(), ours, baseline, unit, judged: ours, judged_unit: unit, bar });
    }

    /// Judges the last figure by another value, with a unit of its own.
    pub(crate) fn judge_last(&mut self, judged: f64, judged_unit: &'static str, bar: Bar) {
        if let Some(figure) = self.figures.last_mut() {
            (figure.judged, figure.judged_unit, figure.bar) = (judged, judged_unit, bar);
            eprintln!("    judged {} {judged_unit}", round(judged));
        }
    }

    fn push(&mut self, figure: Figure) {
        eprintln!(
            "  {}: {} {}, judged {} {}",
            figure.what,
            round(figure.ours),
            figure.unit,
            round(figure.judged),
            figure.judged_unit
        );
        self.figures.push(figure);
    }

    /// Whether no bar was missed.
    pub(crate) fn all_met(&self) -> bool {
        self.figures.iter().all(|figure| figure.bar.met(figure.judged) != Some(false))
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_header(["figure", "node", "baseline", "judged", "bar", ""]);
        for figure in &self.figures {
            let verdict = figure.bar.met(figure.judged).map_or("", |met| if met { "met" } else { "MISSED" });
            let baseline = figure.baseline.map_or(String::new(), |value| format!("{} {}", round(value), figure.unit));
            table.add_row([
                figure.what.clone(),
                format!("{} {}", round(figure.ours), figure.unit),
                baseline,
                format!("{} {}", round(figure.judged), figure.judged_unit),
                figure.bar.text(),
                verdict.to_owned(),
            ]);
        }
        table
    }

    pub(crate) fn json(&self) -> Value {
        let figures: Vec<Value> = self
            .figures
            .iter()
            .map(|figure| {
                json!({"figure": figure.what, "node": figure.ours, "baseline": figure.baseline, "unit": figure.unit,
                       "judged": figure.judged, "judgedUnit": figure.judged_unit, "bar": figure.bar.text(),
                       "met": figure.bar.met(figure.judged)})
            })
            .collect();
        json!({"figures": figures, "allMet": self.all_met()})
    }
}

/// Three significant digits are all a run on a shared machine gives.
fn round(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
