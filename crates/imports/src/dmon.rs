//! `nvidia-smi dmon`: a row for each GPU and moment, blanks or commas between the columns, the header again and again.

use std::io::BufRead;

use jiff::civil::Date;

use super::smi_query::{add, column, finish};
use super::tables::{Days, count_row, next_line, small, time_of_day, unix_ms, whole};
use super::{ImportContext, ImportError, Imported, ToolReading};
use trainmon_sample::GpuReading;

/// The command that writes what a report needs.
const WITH: &str = "nvidia-smi dmon -s pucvmet -o DT";
/// dmon's interval where the file has no times.
const UNTIMED_INTERVAL_MS: i64 = 1000;
/// The software power cap and the software thermal slowdown, of nvml.h's clock event reasons.
const POWER_CAPPED: u64 = 0x4;
const THERMALLY_SLOWED: u64 = 0x20;

/// Puts the value of a column, by its name in dmon's first header line, into the GPU's readings.
fn put(gpu: &mut GpuReading, name: &str, value: &str) {
    let violation = |gpu: &mut GpuReading, reason: u64| {
        if let Some(violated) = whole(value) {
            let mask = gpu.clock_event_reasons.get_or_insert(0);
            *mask |= if violated > 0 { reason } else { 0 };
        }
    };
    match name {
        "pviol" => violation(gpu, POWER_CAPPED),
        "tviol" => violation(gpu, THERMALLY_SLOWED),
        "rxpci" => gpu.pcie_rx_kib_per_s = small(value).and_then(|mib| mib.checked_mul(1024)),
        "txpci" => gpu.pcie_tx_kib_per_s = small(value).and_then(|mib| mib.checked_mul(1024)),
        name => column(name).into_iter().for_each(|put| put(gpu, value)),
    }
}

fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.trim_start_matches('#').split([' ', '\t', ',']).filter(|cell| !cell.is_empty())
}

/// Reads the rows; several GPUs of one moment are one reading.
pub(super) fn read(mut from: impl BufRead, context: &ImportContext) -> Result<Imported, ImportError> {
    let (mut buffer, mut number) = (Vec::new(), 0);
    let mut columns: Vec<String> = Vec::new();
    let mut readings: Vec<ToolReading> = Vec::new();
    let (mut days, mut untimed_ms, mut count) = (Days::default(), 0, 0);
    while let Some(line) = next_line(&mut from, &mut buffer)? {
        number += 1;
        if line.starts_with('#') {
            // The second header line has the units.
            if cells(line).any(|cell| cell == "gpu") {
                columns = cells(line).map(str::to_owned).collect();
                check(&columns)?;
            }
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        count_row(&mut count)?;
        let values: Vec<&str> = cells(line).collect();
        if columns.is_empty() {
            return Err(ImportError::Nothing { what: "header", with: WITH });
        }
        if values.len() < columns.len() {
            // Cut off by the end of the tool.
            continue;
        }
        let mut gpu = GpuReading::default();
        let (mut date, mut time) = (None, None);
        for (name, value) in columns.iter().zip(values) {
            match name.as_str() {
                "Date" => date = Some(value),
                "Time" => time = Some(value),
                name => put(&mut gpu, name, value),
            }
        }
        let at = match time {
            Some(time) => moment(date, time, &mut days, context)
                .ok_or_else(|| ImportError::Bad(format!("line {number}: no date and time as dmon writes them")))?,
            None => {
                let again =
                    readings.last().is_some_and(|last| last.gpus.iter().any(|known| known.index == gpu.index));
                untimed_ms += if again { UNTIMED_INTERVAL_MS } else { 0 };
                untimed_ms
            }
        };
        add(&mut readings, at, gpu)?;
    }
    let mut imported = finish(readings)?;
    if columns.iter().all(|name| name != "Time") {
        imported.timeless = true;
        imported.notes.push(format!("no times in it, taken as one second apart; `{WITH}` writes them"));
    }
    Ok(imported)
}

/// Milliseconds since 1970 of a row's date, if it has one, and time.
fn moment(date: Option<&str>, time: &str, days: &mut Days, context: &ImportContext) -> Option<i64> {
    let time = time_of_day(time, None)?;
    let at = match date {
        Some(date) => day(date)?.to_datetime(time),
        None => days.next(time, context)?,
    };
    unix_ms(at, context)
}

fn check(columns: &[String]) -> Result<(), ImportError> {
    let has = |name: &str| columns.iter().any(|column| column == name);
    if has("pid") {
        return Err(ImportError::Nothing { what: "GPU (it is of `nvidia-smi pmon`)", with: WITH });
    }
    if !has("sm") {
        return Err(ImportError::Nothing { what: "column `sm`", with: WITH });
    }
    Ok(())
}

/// `20261126`.
fn day(text: &str) -> Option<Date> {
    let year = text.get(..4)?.parse().ok()?;
    let month = text.get(4..6)?.parse().ok()?;
    Date::new(year, month, text.get(6..)?.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Result<Imported, ImportError> {
        read(text.as_bytes(), &ImportContext { zone: TimeZone::UTC, written_ms: 1_795_699_655_000 })
    }

    const TIMED: &str = "#Date        Time         gpu    pwr     sm  pviol  tviol     fb  rxpci \n\
                         #YYYYMMDD    HH:MM:SS     Idx      W      %      %   bool     MB   MB/s \n";

    #[test]
    fn rows_of_several_gpus_with_times() {
        let text = format!(
            "{TIMED} 20261126    13:27:35  0  127  2  0  0  1097  9 \r\n 20261126 13:27:35 1 - - 5 1 - -\n{TIMED}\
             20261126 13:27:36 0 128 4 0 0 1097 0\n 2026"
        );
        let imported = of(&text).unwrap();
        assert_eq!((imported.readings.len(), imported.interval_ms, imported.timeless), (2, 1000, false));
        let first = &imported.readings[0];
        assert_eq!((first.unix_ms, first.gpus.len()), (1_795_699_655_000, 2));
        let gpu = &first.gpus[0];
        assert_eq!((gpu.utilization_pct, gpu.power_mw, gpu.clock_event_reasons), (Some(2), Some(127_000), Some(0)));
        assert_eq!((gpu.memory_used_bytes, gpu.pcie_rx_kib_per_s), (Some(1097 << 20), Some(9216)));
        let other = &first.gpus[1];
        assert_eq!((other.utilization_pct, other.power_mw), (None, None));
        assert_eq!(other.clock_event_reasons, Some(POWER_CAPPED | THERMALLY_SLOWED));
    }

    #[test]
    fn rows_without_times_are_a_second_apart() {
        let imported =
            of("# gpu    pwr     sm\n# Idx      W      %\n    0    127   2\n    1   9  3\n    0 127 4\n").unwrap();
        let times: Vec<i64> = imported.readings.iter().map(|reading| reading.unix_ms).collect();
        assert_eq!((times, imported.timeless, imported.notes.len()), (vec![0, 1000], true, 1));
    }

    #[test]
    fn other_tables_are_refused_in_one_line() {
        for (text, part) in [
            ("# gpu pwr\n0 5\n", "column `sm`"),
            ("# gpu pid type sm\n0 5 C 1\n", "pmon"),
            ("0 5 3\n", "header"),
            ("# gpu sm\n", "no rows"),
            ("#Date Time gpu sm\n20269926 13:27:35 0 1\n", "line 2"),
        ] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(part) && error.lines().count() == 1, "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*", rows in proptest::collection::vec("[-0-9: ]*", 0..9)) {
            let _ = of(&text);
            let _ = of(&format!("{TIMED}{}", rows.join("\n")));
        }
    }
}
