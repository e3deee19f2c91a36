//! `nvidia-smi --query-gpu=… --format=csv`: a row for each GPU and moment, with any columns in any order.

use std::io::BufRead;

use jiff::civil::DateTime;

use super::smi_rounds::{SmiRow, number_gpus};
use super::tables::{count_row, number, scaled, small, unix_ms, whole};
use super::{ImportContext, ImportError, Imported, ToolReading, usual_interval_ms};
use trainmon_sample::GpuReading;

/// The command that writes what a report needs.
const WITH: &str = "nvidia-smi --query-gpu=timestamp,index,name,uuid,utilization.gpu,utilization.memory,memory.used,memory.total,\
                    power.draw,power.limit,temperature.gpu,clocks.sm,clocks.max.sm,clocks_event_reasons.active --format=csv -lms 500";
const MIB: f64 = 1_048_576.0;
/// Most GPUs of one moment.
const GPUS_MAX: usize = 1024;

/// Whether a line names columns of such a query.
pub(super) fn is_header(line: &str) -> bool {
    let known = line.split(',').filter(|name| column(name).is_some() || name.trim() == "timestamp").count();
    known >= 2
}

/// Puts the value of a column into the GPU's readings.
pub(super) type Put = fn(&mut GpuReading, &str);

/// The columns by their names in `nvidia-smi --help-query-gpu`, without the unit that the header adds, or in the header of dmon.
pub(super) fn column(header: &str) -> Option<Put> {
    let name = header.trim().split(' ').next().unwrap_or_default();
    Some(match name {
        "index" | "gpu" => |gpu, text| gpu.index = small(text).unwrap_or_default(),
        "uuid" | "gpu_uuid" => |gpu, text| gpu.uuid = known(text),
        "name" | "gpu_name" => |gpu, text| gpu.name = known(text),
        "utilization.gpu" | "sm" => |gpu, text| gpu.utilization_pct = small(text),
        "utilization.memory" | "mem" => |gpu, text| gpu.memory_utilization_pct = small(text),
        "utilization.encoder" | "enc" => |gpu, text| gpu.encoder_pct = small(text),
        "utilization.decoder" | "dec" => |gpu, text| gpu.decoder_pct = small(text),
        "memory.used" | "fb" => |gpu, text| gpu.memory_used_bytes = scaled(text, MIB),
        "memory.total" => |gpu, text| gpu.memory_total_bytes = scaled(text, MIB),
        "power.draw" | "power.draw.instant" | "power.draw.average" | "pwr" => |gpu, text| gpu.power_mw = milli(text),
        "power.limit" | "enforced.power.limit" => |gpu, text| gpu.power_limit_mw = milli(text),
        "temperature.gpu" | "gtemp" | "temp" => |gpu, text| gpu.temperature_c = small(text),
        "clocks.sm" | "clocks.current.sm" | "pclk" => |gpu, text| gpu.sm_clock_mhz = small(text),
        "clocks.max.sm" => |gpu, text| gpu.sm_clock_max_mhz = small(text),
        "clocks.mem" | "clocks.current.memory" | "mclk" => |gpu, text| gpu.memory_clock_mhz = small(text),
        "clocks.max.mem" | "clocks.max.memory" => |gpu, text| gpu.memory_clock_max_mhz = small(text),
        "pcie.link.gen.current" | "pcie.link.gen.gpucurrent" => |gpu, text| gpu.pcie_generation = small(text),
        "pcie.link.gen.max" => |gpu, text| gpu.pcie_generation_max = small(text),
        "pcie.link.width.current" => |gpu, text| gpu.pcie_width = small(text),
        "pcie.link.width.max" => |gpu, text| gpu.pcie_width_max = small(text),
        "ecc.errors.uncorrected.volatile.total" | "dbecc" => |gpu, text| gpu.ecc_uncorrected = whole(text),
        "clocks_event_reasons.active" | "clocks_throttle_reasons.active" => |gpu, text| {
            let mask = text.trim().strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
            gpu.clock_event_reasons = mask;
        },
        _ => return None,
    })
}

fn known(text: &str) -> Option<std::sync::Arc<str>> {
    let text = text.trim();
    (!text.is_empty() && !text.starts_with('[') && text != "N/A").then(|| text.into())
}

fn milli(text: &str) -> Option<u32> {
    number(text).filter(|watts| *watts >= 0.0).map(|watts| (watts * 1000.0).round() as u32)
}

/// Columns that tell GPUs apart where there is no index, the best first.
const KEYS: [&str; 6] = ["uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial"];

/// Reads the rows; several GPUs of one moment are one reading.
pub(super) fn read(from: impl BufRead, context: &ImportContext) -> Result<Imported, ImportError> {
    let mut rows = csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).has_headers(false).from_reader(from);
    let mut row = csv::StringRecord::new();
    let bad = |error: csv::Error| ImportError::Bad(format!("not CSV: {error}"));
    rows.read_record(&mut row).map_err(bad)?;
    let header: Vec<String> = row.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect();
    let columns: Vec<Option<Put>> = header.iter().map(|name| column(name)).collect();
    let place = |name: &str| header.iter().position(|header| header.split(' ').next() == Some(name));
    let Some(at) = place("timestamp") else {
        return Err(ImportError::Nothing { what: "column `timestamp`", with: WITH });
    };
    if place("utilization.gpu").is_none() {
        return Err(ImportError::Nothing { what: "column `utilization.gpu`", with: WITH });
    }
    let key = KEYS.iter().find_map(|name| place(name));
    let mut found: Vec<SmiRow> = Vec::new();
    let (mut count, mut first) = (0, true);
    while rows.read_record(&mut row).map_err(bad)? {
        count_row(&mut count)?;
        // The header is written again where a file was appended to; a row cut off by the end of the tool is left out.
        let Some(time) = row.get(at) else { continue };
        if row.len() < header.len() {
            continue;
        }
        let Some(unix_ms) = moment(time, context) else {
            if time == "timestamp" {
                first = true;
                continue;
            }
            return Err(ImportError::Bad(format!(
                "row {}: `{}` is no time such as 2026/11/26 13:27:35.139",
                count + 1,
                trainmon_base::text::fit(time, 40)
            )));
        };
        let mut gpu = GpuReading::default();
        for (put, value) in columns.iter().zip(&row) {
            put.iter().for_each(|put| put(&mut gpu, value));
        }
        let key = key.and_then(|key| row.get(key)).filter(|text| known(text).is_some()).map(Into::into);
        found.push(SmiRow { unix_ms, gpu, key, first });
        first = false;
    }
    let note = if place("index").is_none() { number_gpus(&mut found) } else { None };
    let mut readings: Vec<ToolReading> = Vec::new();
    for SmiRow { unix_ms, gpu, .. } in found {
        add(&mut readings, unix_ms, gpu)?;
    }
    let mut imported = finish(readings)?;
    imported.notes.extend(note);
    Ok(imported)
}

/// `2026/11/26 13:27:35.139`.
fn moment(text: &str, context: &ImportContext) -> Option<i64> {
    let text = text.trim().replace('/', "-").replacen(' ', "T", 1);
    unix_ms(text.parse::<DateTime>().ok()?, context)
}

/// Adds a GPU's readings to those of the same moment: until a GPU comes again.
pub(super) fn add(readings: &mut Vec<ToolReading>, unix_ms: i64, gpu: GpuReading) -> Result<(), ImportError> {
    let last = readings
        .last_mut()
        .filter(|last| last.unix_ms <= unix_ms && last.gpus.iter().all(|known| known.index != gpu.index));
    match last {
        Some(last) if last.gpus.len() >= GPUS_MAX => {
            return Err(ImportError::TooLarge("more than 1024 GPUs at one moment, which no machine has"));
        }
        Some(last) => {
            last.unix_ms = unix_ms;
            last.gpus.push(gpu);
        }
        None => readings.push(ToolReading { unix_ms, gpus: vec![gpu], ..ToolReading::default() }),
    }
    Ok(())
}

/// The readings in order, with their usual distance.
pub(super) fn finish(mut readings: Vec<ToolReading>) -> Result<Imported, ImportError> {
    if readings.is_empty() {
        return Err(ImportError::Bad("no rows in it".into()));
    }
    readings.sort_by_key(|reading| reading.unix_ms);
    let interval_ms = usual_interval_ms(readings.iter().map(|reading| reading.unix_ms)).unwrap_or(1000);
    Ok(Imported { readings, interval_ms, ..Imported::default() })
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::*;

    fn context() -> ImportContext {
        ImportContext { zone: TimeZone::UTC, written_ms: 0 }
    }

    fn of(text: &str) -> Result<Imported, ImportError> {
        read(text.as_bytes(), &context())
    }

    #[test]
    fn columns_in_any_order_with_bom_and_crlf() {
        let imported = of("\u{feff}utilization.gpu [%], timestamp, power.draw [W], something.new, index\r\n\
             2 %, 2026/11/26 13:27:35.139, 127.87 W, x, 1\r\n[N/A], 2026/11/26 13:27:35.140, [N/A], x, 0\r\n\
             3 %, 2026/11/26 13:27:36.139, 127.87 W, x, 1\r\n99 %, 2026/11/2")
        .unwrap();
        assert_eq!((imported.readings.len(), imported.interval_ms), (2, 999));
        let first = &imported.readings[0];
        assert_eq!(first.unix_ms, 1_795_699_655_140);
        let gpus: Vec<_> = first.gpus.iter().map(|gpu| (gpu.index, gpu.utilization_pct, gpu.power_mw)).collect();
        assert_eq!(gpus, [(1, Some(2), Some(127_870)), (0, None, None)]);
    }

    #[test]
    fn gpus_without_an_index_are_told_apart_by_uuid_or_moment() {
        let rows = |with: bool| {
            let uuid = |name: &str| if with { format!(", GPU-{name}") } else { String::new() };
            let row = |second: u32, name: &str| format!("2026/11/26 13:27:3{second}.000, 5{}\n", uuid(name));
            let header = if with { "timestamp, utilization.gpu, uuid\n" } else { "timestamp, utilization.gpu\n" };
            header.to_owned() + &row(1, "a") + &row(1, "b") + &row(2, "a") + &row(2, "b")
        };
        for with in [true, false] {
            let imported = of(&rows(with)).unwrap();
            let indexes: Vec<Vec<u32>> =
                imported.readings.iter().map(|one| one.gpus.iter().map(|gpu| gpu.index).collect()).collect();
            assert_eq!(indexes, [[0, 1], [0, 1]], "{with}");
        }
    }

    #[test]
    fn what_a_report_needs_is_asked_for() {
        for (text, part) in [
            ("timestamp, name\n", "utilization.gpu"),
            ("utilization.gpu, name\n", "timestamp"),
            ("timestamp, utilization.gpu\n", "no rows"),
            ("timestamp, utilization.gpu\nyesterday, 5\n", "yesterday"),
        ] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(part) && error.lines().count() == 1, "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*", rows in proptest::collection::vec("[-0-9/:. %,a-zA-Z\\[\\]]*", 0..9)) {
            let _ = of(&text);
            let _ = of(&format!("timestamp, utilization.gpu [%], index\n{}", rows.join("\n")));
        }
    }
}
