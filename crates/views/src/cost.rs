//! What a run cost: GPU time, how much of it was idle, and energy; with a price, in money.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use trainmon_base::text::format::{duration, precise, whole_percent as percent};
use trainmon_diagnosis::history::totals::Totals;

/// Seconds of an hour.
const HOUR_S: f64 = 3600.0;
/// Longest sign of a currency: `CHF `.
const SIGN_MAX: usize = 4;
/// Most that an hour of a GPU may cost, in any currency.
const PRICE_MAX: f64 = 1e7;

/// What an hour of one GPU costs, as it was written: `1.21`, `$1.21`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PriceWritten", into = "String")]
pub struct Price {
    sign: String,
    per_gpu_hour: f64,
}

/// A price in a file: text or a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum PriceWritten {
    Text(String),
    Number(f64),
}

impl TryFrom<PriceWritten> for Price {
    type Error = String;

    fn try_from(written: PriceWritten) -> Result<Self, String> {
        match written {
            PriceWritten::Text(text) => text.parse(),
            PriceWritten::Number(number) => number.to_string().parse(),
        }
    }
}

impl From<Price> for String {
    fn from(price: Price) -> Self {
        price.to_string()
    }
}

impl FromStr for Price {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(text.len());
        let (sign, number) = text.split_at(digits);
        let plain = |c: char| c.is_alphabetic() || c == ' ' || "$€£¥₹".contains(c);
        let number = number.parse::<f64>().ok().filter(|price| (0.0..=PRICE_MAX).contains(price));
        match number {
            Some(per_gpu_hour) if sign.chars().count() <= SIGN_MAX && sign.chars().all(plain) => {
                Ok(Self { sign: sign.to_owned(), per_gpu_hour })
            }
            _ => Err("write what an hour of one GPU costs: 1.21 or $1.21".to_owned()),
        }
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.sign, self.per_gpu_hour)
    }
}

impl Price {
    /// What so many seconds of one GPU cost.
    pub(crate) fn for_time(&self, gpu_s: f64) -> String {
        self.for_hours(gpu_s / HOUR_S)
    }

    /// What so many hours of one GPU cost: `$2.42`.
    pub(crate) fn for_hours(&self, gpu_hours: f64) -> String {
        format!("{}{:.2}", self.sign, gpu_hours * self.per_gpu_hour)
    }
}

/// The parts: all of it …
pub(crate) const ALL_GPUS: &str = "all GPUs";
/// … and those of it that are lost.
pub(crate) const WHILE_IDLE: &str = "while they idle";
pub(crate) const WHILE_WAITING: &str = "while the loop waits for data";

/// A part of what the GPUs were paid for.
#[derive(Debug, Clone, PartialEq)]
pub struct CostPart {
    /// Which part.
    pub what: &'static str,
    /// Time, times GPUs.
    pub time: String,
    /// Its share of all GPU time, in percent; empty for all of them.
    pub share: String,
    /// What it costs; empty without a price.
    pub cost: String,
}

/// The GPUs' time in parts, all of it first; empty where no GPU was used. The parts are not disjoint: GPUs idle while the loop waits.
pub fn parts(run: &Totals, price: Option<&Price>) -> Vec<CostPart> {
    if run.gpu_s <= 0.0 {
        return Vec::new();
    }
    let part = |what, seconds: f64, is_all: bool| CostPart {
        what,
        time: gpu_time(seconds),
        share: if is_all { String::new() } else { format!("{}%", percent(seconds / run.gpu_s)) },
        cost: price.map(|price| price.for_time(seconds)).unwrap_or_default(),
    };
    let mut all = vec![part(ALL_GPUS, run.gpu_s, true)];
    all.extend(run.gpu_idle_s.map(|idle_s| part(WHILE_IDLE, idle_s.min(run.gpu_s), false)));
    let split = run.split_s.shares_of(run.split_s.total());
    let waits = split.map(|split| split.input_wait).filter(|share| *share > 0.0);
    all.extend(waits.map(|share| part(WHILE_WAITING, share * run.gpu_s, false)));
    all
}

/// `2.3 h`, or minutes and seconds where it is less than an hour.
fn gpu_time(seconds: f64) -> String {
    if seconds < HOUR_S { duration(seconds) } else { format!("{} h", precise(seconds / HOUR_S)) }
}

/// Energy of the GPUs: `3.42 kWh, 142 W on average`; `None` where their power is not known.
pub fn energy(run: &Totals) -> Option<String> {
    (run.power_s > 0.0).then(|| {
        let mean_w = run.energy_j / run.power_s;
        let wh = run.energy_j / HOUR_S;
        let energy =
            if wh < 1000.0 { format!("{} Wh", precise(wh)) } else { format!("{} kWh", precise(wh / 1000.0)) };
        format!("{energy}, {} W on average", precise(mean_w))
    })
}

/// What the run cost, in a line or two.
pub fn lines(run: &Totals, price: Option<&Price>) -> Vec<String> {
    let mut lines = Vec::new();
    if let [all, parts @ ..] = parts(run, price).as_slice() {
        let paid = |cost: &str| if cost.is_empty() { String::new() } else { format!(" ({cost})") };
        let named = parts.iter().map(|part| format!(", {} {}{}", part.share, part.what, paid(&part.cost)));
        lines.push(format!("GPU time: {}{}{}", all.time, paid(&all.cost), named.collect::<String>()));
    }
    lines.extend(energy(run).map(|energy| format!("Energy of the GPUs: {energy}")));
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use trainmon_waits::time_split::TimeSplit;

    fn run() -> Totals {
        let split_s = TimeSplit { input_wait: 1800.0, host_busy: 1800.0, ..TimeSplit::default() };
        let mut run = Totals::default();
        (run.gpu_s, run.gpu_idle_s, run.split_s) = (7200.0, Some(4320.0), split_s);
        (run.energy_j, run.power_s) = (1.08e6, 3600.0);
        run
    }

    #[test]
    fn hours_become_money_and_power_energy() {
        let price: Price = "$1.21".parse().unwrap();
        assert_eq!(
            lines(&run(), Some(&price)),
            [
                "GPU time: 2 h ($2.42), 60% while they idle ($1.45), 50% while the loop waits for data ($1.21)",
                "Energy of the GPUs: 300 Wh, 300 W on average",
            ]
        );
        assert_eq!(lines(&run(), None)[0], "GPU time: 2 h, 60% while they idle, 50% while the loop waits for data");
        assert!(lines(&Totals::default(), Some(&price)).is_empty(), "no GPU, no power");
    }

    #[test]
    fn prices_are_numbers_with_a_currency_at_most() {
        for (text, shown) in [("1.21", "1.21"), (" $1.21", "$1.21"), ("CHF 2", "CHF 2"), ("€0.5", "€0.5"), ("0", "0")]
        {
            assert_eq!(text.parse::<Price>().unwrap().to_string(), shown);
        }
        for text in ["", "$", "-1", "1.2.3", "1e9", "inf", "NaN", "dollars 1", "<b>1", "\u{1b}[1m2"] {
            assert!(text.parse::<Price>().unwrap_err().contains("1.21"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(text in "[$€]?[0-9]{1,4}(\\.[0-9]{1,3})?") {
            let price: Price = text.parse().unwrap();
            prop_assert_eq!(price.to_string().parse::<Price>().unwrap(), price);
        }
    }
}
