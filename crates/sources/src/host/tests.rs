use std::fs;

use proptest::prelude::*;

use super::*;

const NET: &str = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0
  eth0: 4208777769   80891    0    0    0     0          0         0  3654564   53087    0    0    0     0       0          0
docker0:     7      29    0    0    0     0          0         0     9      29    0    0    0     0       0          0
  br0: 4208777769   80891    0    0    0     0          0         0  3654564   53087    0    0    0     0       0          0
";

fn tree() -> (tempfile::TempDir, Roots) {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { proc: folder.path().join("proc"), sys: folder.path().join("sys") };
    fs::create_dir_all(roots.proc.join("net")).unwrap();
    fs::create_dir_all(roots.proc.join("pressure")).unwrap();
    fs::create_dir_all(roots.proc.join("sys/kernel")).unwrap();
    fs::create_dir_all(roots.sys.join("class/net/eth0/device")).unwrap();
    fs::create_dir_all(roots.sys.join("class/net/br0")).unwrap();
    (folder, roots)
}

#[test]
fn a_full_tree_is_read() {
    let (_folder, roots) = tree();
    let write = |name: &str, text: &str| fs::write(roots.proc.join(name), text).unwrap();
    write(
        "stat",
        "cpu  3 3 3 3 3 3 3 3 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\ncpu3 10 20 30 40 50 60 70 80 0 0\nintr 9 9 9\n",
    );
    write(
        "meminfo",
        "MemTotal:       1000 kB\nMemFree: 5 kB\nMemAvailable:    600 kB\nCached:          300 kB\nSwapCached: 1 kB\n\
         SwapTotal:       50 kB\nSwapFree:        40 kB\nDirty: 1 kB\n",
    );
    write("vmstat", "nr_free_pages 1\nworkingset_refault_anon 4\nworkingset_refault_file 5\npswpin 6\npswpout 7\n");
    write("loadavg", "0.31 1.20 2.00 3/512 12345\n");
    write(
        "pressure/cpu",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=11\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    );
    write(
        "pressure/io",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=13\n",
    );
    write("net/dev", NET);
    write("sys/kernel/hostname", "gpu-17\n");
    let flags = "fpu ".repeat(1000);
    write(
        "cpuinfo",
        &format!("processor\t: 0\ncpu family\t: 6\nmodel name\t: Intel(R) Xeon(R) 8462Y+\nflags\t\t: {flags}\n"),
    );
    let mut reader = HostReader::new(&roots);
    let sample = reader.read(99).unwrap();
    assert_eq!(sample.monotonic_ns, 99);
    assert_eq!(sample.cpus.len(), 2);
    assert_eq!(
        sample.cpus[0],
        CpuTimes { cpu: 0, user: 1, nice: 2, system: 3, idle: 4, iowait: 5, irq: 6, softirq: 7, steal: 8 }
    );
    assert_eq!(sample.cpus[1].cpu, 3);
    assert_eq!(sample.load, Some([0.31, 1.2, 2.0]));
    assert_eq!(sample.memory_total_bytes, Some(1000 * 1024));
    assert_eq!(sample.memory_available_bytes, Some(600 * 1024));
    assert_eq!(sample.page_bytes, u32::try_from(rustix::param::page_size()).ok());
    assert_eq!(sample.swapped_in_pages, Some(6));
    assert_eq!(sample.refaulted_file_pages, Some(5));
    assert_eq!(sample.cpu_pressure, Some(Pressure { some_us: 11 }));
    assert_eq!(sample.io_pressure, Some(Pressure { some_us: 12 }));
    assert_eq!(sample.memory_pressure, None);
    assert_eq!(sample.net.len(), 1);
    assert_eq!((&*sample.net[0].name, sample.net[0].rx_bytes, sample.net[0].tx_bytes), ("eth0", 4208777769, 3654564));
    assert_eq!(
        (sample.name.as_deref(), sample.cpu_model.as_deref()),
        (Some("gpu-17"), Some("Intel(R) Xeon(R) 8462Y+"))
    );
}

#[test]
fn inside_a_container_the_veth_named_eth0_counts() {
    let (_folder, roots) = tree();
    fs::remove_dir_all(roots.sys.join("class/net")).unwrap();
    let mut names = NetNames { folder: roots.sys.join("class/net"), known: Vec::new() };
    let found = names.count_once(NET.as_bytes());
    assert_eq!(found.iter().map(|net| &*net.name).collect::<Vec<_>>(), ["eth0", "br0"]);
}

#[test]
fn an_old_kernel_leaves_none_and_an_empty_root_is_an_error() {
    let (_folder, roots) = tree();
    let mut reader = HostReader::new(&roots);
    assert_eq!(reader.read(0).unwrap_err().kind(), io::ErrorKind::NotFound);
    fs::write(roots.proc.join("stat"), "cpu0 1 2 3 4\n").unwrap();
    fs::write(roots.proc.join("meminfo"), "MemTotal: 10 kB\n").unwrap();
    let mut reader = HostReader::new(&roots);
    let sample = reader.read(0).unwrap();
    assert_eq!(sample.cpus[0].iowait, 0);
    assert_eq!((sample.memory_available_bytes, sample.load, sample.io_pressure), (None, None, None));
    assert_eq!((sample.name, sample.cpu_model), (None, None));
}

#[test]
fn cpus_may_come_and_go() {
    let (_folder, roots) = tree();
    let stat = |cpus: usize| {
        let mut text = String::from("cpu  1 1 1 1 1 1 1 1 0 0\n");
        for cpu in 0..cpus {
            text += &format!("cpu{cpu} 123456789 123456789 123456789 123456789 0 0 0 0 0 0\n");
        }
        text + "intr " + &"0 ".repeat(100_000) + "\nctxt 1\n"
    };
    let path = roots.proc.join("stat");
    fs::write(&path, stat(4)).unwrap();
    let mut reader = HostReader::new(&roots);
    for cpus in [4, 2000, 3, 0, 1] {
        fs::write(&path, stat(cpus)).unwrap();
        assert_eq!(reader.read(0).unwrap().cpus.len(), cpus);
    }
}

#[test]
fn this_machine() {
    let mut reader = HostReader::new(&Roots::default());
    let sample = reader.read(1).unwrap();
    assert!(!sample.cpus.is_empty());
    assert!(sample.memory_total_bytes.unwrap() > sample.memory_available_bytes.unwrap());
    assert!(sample.net.iter().all(|net| &*net.name != "lo"));
}

proptest! {
    #[test]
    fn cpu_lines_round_trip(rows in proptest::collection::vec((any::<u16>(), any::<[u64; 8]>()), 0..20)) {
        let mut text = String::from("cpu  0 0 0 0 0 0 0 0 0 0\n");
        let mut expected = Vec::new();
        for (cpu, [user, nice, system, idle, iowait, irq, softirq, steal]) in rows {
            text += &format!("cpu{cpu} {user} {nice} {system} {idle} {iowait} {irq} {softirq} {steal} 0 0\n");
            expected.push(CpuTimes { cpu, user, nice, system, idle, iowait, irq, softirq, steal });
        }
        let length = text.len();
        let mut found = Vec::new();
        prop_assert_eq!(cpu_lines((text + "intr 0 0\n").as_bytes(), &mut found), length);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn pressure_round_trips(some: u64, full: u64) {
        let text = format!("some avg10=0.00 avg60=1.00 avg300=0.00 total={some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={full}\n");
        prop_assert_eq!(pressure(text.as_bytes()), Some(Pressure { some_us: some }));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let mut sample = HostSample::default();
        cpu_lines(&bytes, &mut sample.cpus);
        meminfo(&bytes, &mut sample);
        vmstat(&bytes, &mut sample);
        let _ = (loadavg(&bytes), pressure(&bytes));
        let mut names = NetNames { folder: "/nowhere".into(), known: Vec::new() };
        names.count_once(&bytes);
    }

    #[test]
    fn mangled_kernel_text_never_panics(at in 0..NET.len(), byte: u8) {
        let mut bytes = NET.as_bytes().to_vec();
        bytes[at] = byte;
        NetNames { folder: "/nowhere".into(), known: Vec::new() }.count_once(&bytes);
    }
}
