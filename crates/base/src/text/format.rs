//! Numbers in the form people read, on the screen and in reports. What was not measured is `–`, never 0.
//!
//! The screen shows about two digits: columns compare at a glance, and flickering digits say nothing. A report is read
//! once and quoted: [`precise`] has three.

use super::named_enum;

named_enum! {
    /// What a number in the evidence counts.
    pub enum Unit {
        /// A part of a whole, 0–1.
        Share = "share",
        /// A part of a whole, 0–100.
        Percent = "percent",
        /// CPUs.
        Cores = "cores",
        /// Bytes.
        Bytes = "bytes",
        /// Bytes per second.
        BytesPerS = "bytes/s",
        /// Milliseconds.
        Ms = "ms",
        /// Steps of the loop.
        Steps = "steps",
        /// Anything else that is counted.
        Count = "count",
    }
}

/// Replaces a value that was not measured.
pub const UNMEASURED: &str = "–";

/// Bytes in a MiB.
pub const MIB: f64 = 1024.0 * 1024.0;

/// A finite value as text: infinities and NaN are not measurements.
fn measured(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.filter(|v| v.is_finite()).map_or_else(|| UNMEASURED.to_owned(), show)
}

/// Percent, from a percent: `81%`.
pub fn percent(value: Option<f64>) -> String {
    in_unit(value, Unit::Percent)
}

/// Percent, from a share of 0–1.
pub fn share(value: Option<f64>) -> String {
    in_unit(value, Unit::Share)
}

/// A share as a whole percentage, never more than 100.
pub fn whole_percent(share: f64) -> u32 {
    if share.is_finite() { (share.clamp(0.0, 1.0) * 100.0).round() as u32 } else { 0 }
}

/// Shares of at least `least` with their names, largest first: `host work 70%, device sync 14%`.
pub fn largest_first<N: std::fmt::Display>(shares: impl IntoIterator<Item = (N, f64)>, least: f64) -> String {
    let mut shares: Vec<_> = shares.into_iter().filter(|(_, share)| *share >= least).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words: Vec<_> = shares.iter().map(|(name, share)| format!("{name} {}%", whole_percent(*share))).collect();
    words.join(", ")
}

/// A bare number with no more digits than it needs: `0.42`, `4.2`, `42`.
pub fn number(value: Option<f64>) -> String {
    measured(value, digits)
}

/// A count with its noun: `1 worker`, `4 workers`.
pub fn counted<N: PartialEq + From<u8> + std::fmt::Display>(count: N, one: &str, many: &str) -> String {
    format!("{count} {}", if count == N::from(1) { one } else { many })
}

/// Bytes: `6.1 GiB`.
pub fn bytes(value: Option<u64>) -> String {
    in_unit(value.map(|v| v as f64), Unit::Bytes)
}

/// Bytes per second: always in MiB/s, so that rows compare at a glance.
pub fn mib_s(value: Option<f64>) -> String {
    measured(value, |v| digits(v / MIB))
}

/// Bytes per second with its unit: `312 MiB/s`.
pub fn rate(value: Option<f64>) -> String {
    in_unit(value, Unit::BytesPerS)
}

/// Short form of a chart's maximum in bytes per second: `200M`.
pub fn short_bytes(v: f64) -> String {
    let (size, name) = scale(v);
    format!("{}{}", digits(v / size), name.get(..1).unwrap_or(""))
}

/// A value in its unit, with few digits.
pub fn in_unit(value: Option<f64>, unit: Unit) -> String {
    with_unit(value, unit, rounded, digits)
}

/// A value in its unit, with three digits.
pub fn precise_in_unit(value: Option<f64>, unit: Unit) -> String {
    with_unit(value, unit, precise, precise)
}

/// A number with as many decimals as it needs for three digits, and none that are 0.
pub fn precise(value: f64) -> String {
    measured(Some(value), |v| {
        let decimals = if v.abs() >= 100.0 { 0 } else { 2 - usize::from(v.abs() >= 10.0) };
        let text = format!("{v:.decimals$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    })
}

fn with_unit(
    value: Option<f64>,
    unit: Unit,
    percent: impl Fn(f64) -> String,
    digits: impl Fn(f64) -> String,
) -> String {
    measured(value, |v| match unit {
        Unit::Share => format!("{}%", percent(v * 100.0)),
        Unit::Percent => format!("{}%", percent(v)),
        Unit::BytesPerS => format!("{} MiB/s", digits(v / MIB)),
        Unit::Bytes => {
            let (size, name) = scale(v);
            format!("{} {name}", digits(v / size))
        }
        Unit::Count if v.fract() == 0.0 => format!("{v:.0}"),
        Unit::Count => digits(v),
        Unit::Cores => format!("{} CPUs", digits(v)),
        Unit::Ms | Unit::Steps => format!("{} {}", digits(v), unit.word()),
    })
}

/// A whole number, without the sign of a rounded-away negative. Halves are rounded up, as in [`whole_percent`].
fn rounded(v: f64) -> String {
    format!("{:.0}", if v.abs() < 0.5 { 0.0 } else { v.round() })
}

/// Two digits, or all of a whole number.
fn digits(v: f64) -> String {
    match v.abs() {
        0.0 => "0".to_owned(),
        0.0..0.995 => format!("{v:.2}"),
        0.995..9.95 => format!("{v:.1}"),
        _ => rounded(v),
    }
}

/// Binary unit of a byte count: the divisor and its name.
fn scale(bytes: f64) -> (f64, &'static str) {
    let units = [(MIB * MIB, "TiB"), (MIB * 1024.0, "GiB"), (MIB, "MiB"), (1024.0, "KiB")];
    units.into_iter().find(|(size, _)| bytes.abs() >= *size).unwrap_or((1.0, "B"))
}

/// A time span in one or two units: `42 s`, `2m10s`, `3h05m`, `2d04h`.
pub fn duration(seconds: f64) -> String {
    measured(Some(seconds), |seconds| {
        let s = seconds.clamp(0.0, 1e12).round() as u64;
        match s {
            0..60 => format!("{s} s"),
            60..3600 => format!("{}m{:02}s", s / 60, s % 60),
            3600..86_400 => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
            _ => format!("{}d{:02}h", s / 86_400, s % 86_400 / 3600),
        }
    })
}

/// The length of a step: `68 ms`, `0.76 s`, `1.3 s`.
pub fn step_time(ms: f64) -> String {
    measured(
        Some(ms),
        |ms| if ms < 500.0 { format!("{} ms", digits(ms)) } else { format!("{} s", digits(ms / 1000.0)) },
    )
}

/// From this confidence on, a verdict is stated with its number.
pub const SURE: f64 = 0.8;

/// The confidence of a verdict in words: `94% sure`, or `probably` below [`SURE`]; `None` at 0.
pub fn sureness(confidence: f64) -> Option<String> {
    match confidence {
        SURE.. => Some(format!("{}% sure", whole_percent(confidence))),
        c if c > 0.0 => Some("probably".to_owned()),
        _ => None,
    }
}

/// CPU time in six cells: `4:07`, `1h02m`, `3d04h`.
pub fn cpu_time(seconds: f64) -> String {
    measured(Some(seconds), |seconds| {
        let s = seconds.clamp(0.0, 1e12) as u64;
        match s {
            0..3600 => format!("{}:{:02}", s / 60, s % 60),
            3600..360_000 => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
            360_000..8_640_000 => format!("{}d{:02}h", s / 86_400, s % 86_400 / 3600),
            _ => format!("{}d", (s / 86_400).min(99_999)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmeasured_is_a_dash_and_never_a_zero() {
        assert_eq!(percent(None), "–");
        assert_eq!(share(None), "–");
        assert_eq!(bytes(None), "–");
        assert_eq!(rate(None), "–");
        assert_eq!(percent(Some(f64::NAN)), "–");
        assert_eq!(in_unit(None, Unit::Share), "–");
    }

    #[test]
    fn numbers_keep_the_digits_they_deserve() {
        assert_eq!(percent(Some(99.6)), "100%");
        assert_eq!(percent(Some(-0.2)), "0%");
        assert_eq!(bytes(Some(6_549_825_000)), "6.1 GiB");
        assert_eq!(bytes(Some(512)), "512 B");
        assert_eq!(rate(Some(312.0 * 1_048_576.0)), "312 MiB/s");
        assert_eq!(rate(Some(1000.0)), "0.00 MiB/s");
        assert_eq!(short_bytes(200.0 * 1_048_576.0), "200M");
        assert_eq!(number(Some(0.771)), "0.77");
        assert_eq!(number(Some(12.4)), "12");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        assert_eq!((duration(42.4), duration(59.9)), ("42 s".to_owned(), "1m00s".to_owned()));
        assert_eq!(duration(130.0), "2m10s");
        assert_eq!(duration(7200.0), "2h00m");
        assert_eq!(duration(3.0 * 86_400.0 + 7300.0), "3d02h");
        assert_eq!(duration(-4.0), "0 s");
        assert_eq!(duration(f64::INFINITY), "–");
    }

    #[test]
    fn steps_are_told_in_the_unit_that_suits_them() {
        assert_eq!(
            [4.21, 68.0, 760.0, 12_340.0, f64::NAN].map(step_time),
            ["4.2 ms", "68 ms", "0.76 s", "12 s", "–"]
        );
    }

    #[test]
    fn confidence_is_a_percentage_only_where_it_is_stood_by() {
        let words = |confidence| sureness(confidence);
        assert_eq!(words(0.943).as_deref(), Some("94% sure"));
        assert_eq!(words(0.79).as_deref(), Some("probably"));
        assert_eq!([0.0, -1.0, f64::NAN].map(words), [None, None, None]);
    }

    #[test]
    fn cpu_times_fit_six_cells() {
        assert_eq!(cpu_time(247.9), "4:07");
        assert_eq!(cpu_time(3720.0), "1h02m");
        assert_eq!(cpu_time(359_999.0), "99h59m");
        assert_eq!(cpu_time(360_000.0), "4d04h");
        assert_eq!(cpu_time(1e300), "99999d");
        assert_eq!(cpu_time(f64::NAN), "–");
    }

    #[test]
    fn reports_have_three_digits_and_no_zeros_behind_them() {
        let shown = [0.5, 4.0, 12.34, 99.96, 1234.5, -0.25].map(precise);
        assert_eq!(shown, ["0.5", "4", "12.3", "100", "1234", "-0.25"]);
        assert_eq!(precise_in_unit(Some(0.675), Unit::Share), "67.5%");
        assert_eq!(precise_in_unit(Some(65_536.0), Unit::Bytes), "64 KiB");
        assert_eq!(precise_in_unit(None, Unit::Ms), "–");
    }

    #[test]
    fn evidence_is_shown_in_its_own_unit() {
        assert_eq!(in_unit(Some(0.68), Unit::Share), "68%");
        assert_eq!(in_unit(Some(4.0), Unit::Cores), "4.0 CPUs");
        assert_eq!(in_unit(Some(12.0), Unit::Ms), "12 ms");
    }
}
