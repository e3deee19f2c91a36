//! The check that names the machine: what a report of a problem should say of it. It is the machine that we run on, whatever
//! the roots of `/proc` and `/sys` are.

use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use super::{State, Told, told};
use crate::text::format::{bytes, duration};

/// Distribution, processor, memory and how long it has been up.
pub(super) fn host() -> Told {
    let wanted = RefreshKind::nothing()
        .with_cpu(CpuRefreshKind::nothing())
        .with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(wanted);
    let brand = system.cpus().first().map(|cpu| cpu.brand().trim()).filter(|brand| !brand.is_empty());
    let cores = System::physical_core_count().map(|cores| format!("{cores} cores, ")).unwrap_or_default();
    let distribution = [System::name(), System::os_version()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let facts = [
        distribution,
        format!("{}, {cores}{} CPUs", brand.unwrap_or("unknown processor"), system.cpus().len()),
        format!("{} of memory", bytes(Some(system.total_memory()).filter(|total| *total > 0))),
        format!("up {}", duration(System::uptime() as f64)),
    ];
    told(State::Ok, facts.join("; "))
}
