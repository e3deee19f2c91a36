//! Numbers as a person reads them. What was not measured is `–`, never 0.

/// Stands for a value that was not measured.
pub const UNMEASURED: &str = "–";

/// A finite value, or nothing: infinities and NaN are not measurements.
fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite())
}

/// Percent, from a percent: `81 %`.
#[must_use]
pub fn percent(value: Option<f64>) -> String {
    finite(value).map_or_else(|| UNMEASURED.to_owned(), |v| format!("{} %", rounded(v)))
}

/// Percent, from a share of 0–1.
#[must_use]
pub fn share(value: Option<f64>) -> String {
    percent(value.map(|v| v * 100.0))
}

/// A bare number with no more digits than it deserves: `0.42`, `4.2`, `42`.
#[must_use]
pub fn number(value: Option<f64>) -> String {
    finite(value).map_or_else(|| UNMEASURED.to_owned(), digits)
}

/// A whole number, without the sign of a rounded-away negative.
fn rounded(v: f64) -> String {
    format!("{:.0}", if v.abs() < 0.5 { 0.0 } else { v })
}

/// About three significant digits.
fn digits(v: f64) -> String {
    let size = v.abs();
    if size == 0.0 {
        "0".to_owned()
    } else if size < 0.995 {
        format!("{v:.2}")
    } else if size < 9.95 {
        format!("{v:.1}")
    } else {
        rounded(v)
    }
}

/// Binary unit of a byte count: the divisor and its name.
fn unit(bytes: f64) -> (f64, &'static str) {
    const UNITS: [(f64, &str); 5] = [
        (1024.0 * 1024.0 * 1024.0 * 1024.0, "TiB"),
        (1024.0 * 1024.0 * 1024.0, "GiB"),
        (1024.0 * 1024.0, "MiB"),
        (1024.0, "KiB"),
        (1.0, "B"),
    ];
    let [.., bytes_unit] = UNITS;
    UNITS.into_iter().find(|(size, _)| bytes.abs() >= *size).unwrap_or(bytes_unit)
}

/// Bytes: `6.1 GiB`.
#[must_use]
pub fn bytes(value: Option<u64>) -> String {
    let value = value.map(|v| v as f64);
    value.map_or_else(
        || UNMEASURED.to_owned(),
        |v| {
            let (size, name) = unit(v);
            format!("{} {name}", digits(v / size))
        },
    )
}

/// Bytes per second: always in MiB/s, so that rows compare at a glance.
#[must_use]
pub fn mib_s(value: Option<f64>) -> String {
    finite(value).map_or_else(|| UNMEASURED.to_owned(), |v| digits(v / 1_048_576.0))
}

/// Bytes per second with its unit: `312 MiB/s`.
#[must_use]
pub fn rate(value: Option<f64>) -> String {
    finite(value).map_or_else(|| UNMEASURED.to_owned(), |v| format!("{} MiB/s", digits(v / 1_048_576.0)))
}

/// Short form of a chart's maximum in bytes per second: `200M`.
#[must_use]
pub fn short_bytes(v: f64) -> String {
    let (size, name) = unit(v);
    format!("{}{}", digits(v / size), name.get(..1).unwrap_or(""))
}

/// Seconds as two units at most: `42 s`, `2 m 10 s`, `3 h 5 m`, `2 d 4 h`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return UNMEASURED.to_owned();
    }
    let s = seconds.clamp(0.0, 1e12) as u64;
    let two = |big: u64, a: &str, small: u64, b: &str| {
        if small == 0 { format!("{big} {a}") } else { format!("{big} {a} {small} {b}") }
    };
    match s {
        0..60 => format!("{s} s"),
        60..3600 => two(s / 60, "m", s % 60, "s"),
        3600..86_400 => two(s / 3600, "h", s % 3600 / 60, "m"),
        _ => two(s / 86_400, "d", s % 86_400 / 3600, "h"),
    }
}

/// CPU time in six cells: `4:07`, `1h02m`, `3d04h`.
#[must_use]
pub fn cpu_time(seconds: f64) -> String {
    if !seconds.is_finite() {
        return UNMEASURED.to_owned();
    }
    let s = seconds.clamp(0.0, 1e12) as u64;
    match s {
        0..3600 => format!("{}:{:02}", s / 60, s % 60),
        3600..360_000 => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
        360_000..8_640_000 => format!("{}d{:02}h", s / 86_400, s % 86_400 / 3600),
        _ => format!("{}d", (s / 86_400).min(99_999)),
    }
}

/// A value in the unit that an evidence entry names.
#[must_use]
pub fn in_unit(value: Option<f64>, name: &str) -> String {
    let Some(v) = finite(value) else { return UNMEASURED.to_owned() };
    match name {
        "share" => share(Some(v)),
        "percent" => percent(Some(v)),
        "bytes/s" => rate(Some(v)),
        "bytes" => {
            let (size, unit_name) = unit(v);
            format!("{} {unit_name}", digits(v / size))
        }
        "count" | "" => digits(v),
        other => format!("{} {other}", digits(v)),
    }
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
        assert_eq!(in_unit(None, "share"), "–");
    }

    #[test]
    fn numbers_keep_the_digits_they_deserve() {
        assert_eq!(percent(Some(99.6)), "100 %");
        assert_eq!(percent(Some(-0.2)), "0 %");
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
        assert_eq!(duration(42.9), "42 s");
        assert_eq!(duration(130.0), "2 m 10 s");
        assert_eq!(duration(7200.0), "2 h");
        assert_eq!(duration(3.0 * 86_400.0 + 7300.0), "3 d 2 h");
        assert_eq!(duration(-4.0), "0 s");
        assert_eq!(duration(f64::INFINITY), "–");
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
    fn evidence_is_shown_in_its_own_unit() {
        assert_eq!(in_unit(Some(0.68), "share"), "68 %");
        assert_eq!(in_unit(Some(4.0), "cores"), "4.0 cores");
        assert_eq!(in_unit(Some(12.0), "ms"), "12 ms");
    }
}
