//! Percentiles and medians of small samples.
//!
//! Owns sorting. It must not know what was measured.

/// The value below which `percent` of the sample lies; 0 of an empty sample.
pub(crate) fn percentile(sample: &[f64], percent: f64) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a sample"
    )]
    let at = ((sorted.len() as f64) * percent / 100.0).ceil() as usize;
    sorted.get(at.saturating_sub(1)).or(sorted.last()).copied().unwrap_or(0.0)
}

/// The median.
pub(crate) fn median(sample: &[f64]) -> f64 {
    percentile(sample, 50.0)
}
