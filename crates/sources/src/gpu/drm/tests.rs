//! Machines made up after the kernel's documents.

use std::os::unix::fs::symlink;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn write(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn card(&self, minor: u32, driver: &str, pci: &str) -> PathBuf {
        let folder = self.at(&format!("sys/class/drm/renderD{minor}/device"));
        write(&folder.join("uevent"), &format!("DRIVER={driver}\nPCI_ID=8086:56A0\nPCI_SLOT_NAME={pci}\n"));
        folder
    }

    fn client(&self, pid: u32, fd: u32, id: u32, pci: &str, ns: u64) {
        let folder = self.at(&format!("proc/{pid}"));
        let info = format!(
            "drm-client-id:\t{id}\ndrm-pdev:\t{pci}\ndrm-engine-compute:\t{ns} ns\ndrm-resident-local0:\t3 MiB\n"
        );
        write(&folder.join(format!("fdinfo/{fd}")), &info);
        std::fs::create_dir_all(folder.join("fd")).unwrap();
        let _ = symlink("/dev/dri/renderD128", folder.join(format!("fd/{fd}")));
    }

    fn discover(&self) -> Result<DrmGpus, SourceStatus> {
        let roots = Roots { proc: self.at("proc"), sys: self.at("sys") };
        DrmGpus::discover(&SourceOptions { roots, ..SourceOptions::default() })
    }
}

const ARC: &str = "0000:03:00.0";

#[test]
fn a_gpu_s_use_is_the_sum_of_the_processes_seen() {
    let machine = Machine::new();
    let folder = machine.card(128, "xe", ARC);
    machine.card(129, "nvidia", "0000:04:00.0");
    write(&folder.join("hwmon/hwmon2/energy1_input"), "5000000\n");
    write(&folder.join("hwmon/hwmon2/power1_max"), "190000000\n");
    machine.client(70, 5, 1, ARC, 0);
    // The same client, inherited.
    machine.client(71, 5, 1, ARC, 0);
    machine.client(72, 9, 2, ARC, 0);
    let mut gpus = machine.discover().unwrap();
    let first = gpus.read(0).unwrap().remove(0);
    assert_eq!(first.name.as_deref(), Some("Intel GPU 8086:56a0 (xe)"));
    assert_eq!((first.utilization_pct, first.memory_used_bytes), (None, Some(6 << 20)));
    assert_eq!((first.energy_mj, first.power_limit_mw), (Some(5000), Some(190_000)));
    assert!(first.of_processes && !first.integrated);
    machine.client(70, 5, 1, ARC, SECOND / 2);
    machine.client(71, 5, 1, ARC, SECOND / 2);
    machine.client(72, 9, 2, ARC, SECOND / 5);
    let [gpu] = &gpus.read(SECOND).unwrap()[..] else { panic!() };
    assert_eq!(gpu.utilization_pct, Some(70));
    let users: Vec<_> = gpu.processes.iter().map(|process| (process.pid, process.sm_utilization_pct)).collect();
    assert_eq!(users, [(70, Some(50)), (72, Some(20))]);
}

#[test]
fn nothing_is_known_of_a_gpu_without_processes_and_of_one_asleep() {
    let machine = Machine::new();
    let folder = machine.card(128, "i915", "0000:00:02.0");
    let mut gpus = machine.discover().unwrap();
    let gpu = gpus.read(0).unwrap().remove(0);
    assert_eq!((gpu.utilization_pct, gpu.memory_used_bytes, gpu.integrated), (None, None, true));
    write(&folder.join("power/runtime_status"), "suspended\n");
    assert!(gpus.read(SECOND).unwrap().remove(0).asleep);
}

#[test]
fn displays_and_the_gpus_of_others_are_left_to_them() {
    let machine = Machine::new();
    for (minor, driver) in (128..).zip(["amdgpu", "nvidia", "virtio-pci", "nouveau"]) {
        machine.card(minor, driver, ARC);
    }
    assert!(machine.discover().is_err_and(|status| status.state == SourceState::Absent && status.fix.is_none()));
}
