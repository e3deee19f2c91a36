//! The check that names the machine: what a report of a problem should say of it. It is the machine that we run on, whatever
//! the roots of `/proc` and `/sys` are.

use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use super::{State, Told, told};
use trainmon_base::text::format::{bytes, duration};

/// Distribution, processor, memory and how long it has been up.
pub(super) fn host() -> Told {
    let wanted = RefreshKind::nothing()
        .with_cpu(CpuRefreshKind::nothing())
        .with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(wanted);
    let brand = system.cpus().first().map(|cpu| cpu.brand().trim()).filter(|brand| !brand.is_empty());
    let cores = System::physical_core_count().map(|cores| format!("{cores} cores, ")).unwrap_or_default();
    let facts = [
        distribution([System::name(), System::os_version()]),
        format!("{}, {cores}{} CPUs", brand.unwrap_or("unknown processor"), system.cpus().len()),
        format!("{} of memory", bytes(Some(system.total_memory()).filter(|total| *total > 0))),
        format!("up {}", duration(System::uptime() as f64)),
    ];
    told(State::Ok, facts.join("; "))
}

/// Name and version; an image without /etc/os-release has neither.
fn distribution(parts: [Option<String>; 2]) -> String {
    let known: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    if known.is_empty() { "unknown distribution".to_owned() } else { known.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_name_says_so() {
        assert_eq!(distribution([None, None]), "unknown distribution");
        assert_eq!(distribution([Some("Debian GNU/Linux".into()), None]), "Debian GNU/Linux");
        assert_eq!(distribution([Some("Debian GNU/Linux".into()), Some("13".into())]), "Debian GNU/Linux 13");
    }
}
