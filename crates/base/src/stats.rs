//! Small statistics. Values that are not finite are left out.

use std::borrow::Borrow;

/// Mean of the measured values; `None` if there are no measured values.
pub fn mean(values: impl IntoIterator<Item = impl Into<Option<f64>>>) -> Option<f64> {
    let known = values.into_iter().filter_map(Into::into).filter(|value| value.is_finite());
    let (sum, count) = known.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// The middle value; of an even count, the mean of the two in the middle.
pub fn median(values: impl IntoIterator<Item = impl Borrow<f64>>) -> Option<f64> {
    quantile(values, 0.5)
}

/// Quantile (0–1) of `values` by linear interpolation between order statistics; `None` when empty.
pub fn quantile(values: impl IntoIterator<Item = impl Borrow<f64>>, quantile: f64) -> Option<f64> {
    let mut sorted: Vec<f64> =
        values.into_iter().map(|value| *value.borrow()).filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = quantile.clamp(0.0, 1.0) * last as f64;
    let below = *sorted.get(at.floor() as usize)?;
    let above = *sorted.get(at.ceil() as usize)?;
    Some(below + (above - below) * at.fract())
}

/// Where `value` lies between `none` (0) and `full` (1), cut at both ends. Works in either direction.
pub fn ramp(value: f64, none: f64, full: f64) -> f64 {
    if (full - none).abs() < f64::EPSILON {
        return if value >= full { 1.0 } else { 0.0 };
    }
    ((value - none) / (full - none)).clamp(0.0, 1.0)
}

/// Rounded to so many decimals.
pub fn round(value: f64, digits: i32) -> f64 {
    let factor = 10_f64.powi(digits);
    // Adding zero makes a negative zero positive.
    (value * factor).round() / factor + 0.0
}

/// `67%` of a share.
pub fn percent(share: f64) -> String {
    format!("{:.0}%", (share * 100.0).round() + 0.0)
}

/// The smallest of 1, 2, 5, 10, 20, 50 … binary units that is at least `v`: the top of a byte-rate axis.
pub fn nice_bytes(v: f64) -> f64 {
    let units = (1..=4).map(|power| 1024f64.powi(power));
    let mut tops =
        units.flat_map(|unit| [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0].map(|step| unit * step));
    tops.find(|top| v <= *top).unwrap_or(1024f64.powi(5))
}

/// The smallest of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12 … or a tenth or hundredth of one that is at least `v`: the top of an
/// axis of numbers.
pub fn nice_number(v: f64) -> f64 {
    const TOPS: [f64; 10] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];
    let mut tops = (-2..=12).flat_map(|power| TOPS.map(|step| step * 10f64.powi(power)));
    tops.find(|top| v <= *top).unwrap_or(1e13)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_tops_are_round() {
        let mib = 1_048_576.0;
        assert_eq!(nice_bytes(0.0), 1024.0);
        assert_eq!(nice_bytes(130.0 * mib), 200.0 * mib);
        assert_eq!(nice_bytes(600.0 * mib), 1024.0 * mib);
        assert!(nice_bytes(f64::INFINITY).is_finite());
        assert!(nice_bytes(f64::NAN).is_finite());
    }

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile([f64::NAN], 0.5), None);
        assert_eq!(quantile([3.0], 0.95), Some(3.0));
        assert_eq!(median([1.0, 2.0, 3.0, 4.0]), Some(2.5));
        assert_eq!(quantile([1.0, f64::NAN, 3.0], 1.0), Some(3.0));
    }

    #[test]
    fn what_was_not_measured_is_not_in_the_mean() {
        assert_eq!(mean([None, Some(f64::NAN)]), None);
        assert_eq!(mean([None, Some(4.0), Some(6.0)]), Some(5.0));
    }

    #[test]
    fn zero_has_no_sign() {
        assert_eq!((percent(-0.0), percent(-0.001), percent(0.674)), ("0%".into(), "0%".into(), "67%".into()));
        assert!(round(-0.0001, 2).is_sign_positive());
    }

    #[test]
    fn ramps_run_both_ways() {
        assert!((ramp(0.2, 0.1, 0.3) - 0.5).abs() < 1e-9);
        assert!((ramp(0.2, 0.3, 0.1) - 0.5).abs() < 1e-9);
        assert_eq!((ramp(9.0, 0.0, 1.0), ramp(-1.0, 0.0, 1.0)), (1.0, 0.0));
    }
}
