use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;

fn context() -> ImportContext {
    ImportContext { zone: TimeZone::UTC, written_ms: 0 }
}

const BEGIN: &str = "Linux 6.1.0 (vm) \t11/26/26 \t_x86_64_\t(2 CPU)\n\n";

#[test]
fn pidstats_rates_become_counters() {
    let header = "# Time        UID       PID    %usr %system  minflt/s  majflt/s     VSZ     RSS   kB_rd/s   kB_wr/s  Command\n";
    let row = |second: u32| {
        format!(
            "14:19:0{second}        0      2487    50.00    10.00    8.00      0.00 3619904  1000   64.00      -1.00  python\n"
        )
    };
    let text = format!("{BEGIN}{header}{}\n{header}{}\r\nAverage: 0 2487\n14:1", row(2), row(3));
    let imported = pidstat(text.as_bytes(), &context()).unwrap();
    assert_eq!((imported.pid, imported.readings.len(), imported.interval_ms), (Some(2487), 2, 1000));
    let last = imported.readings[1].process.as_ref().unwrap();
    assert_eq!((last.ticks, last.faults, last.rss_bytes), ((10_000, 2000), (16, 0), 1_024_000));
    assert_eq!((last.command.as_str(), last.io), ("python", None), "-1 means that it may not be read");
    assert_eq!(imported.readings[0].unix_ms, 1_795_702_742_000);
}

#[test]
fn separate_tables_of_a_moment_are_one_reading_with_am_and_pm() {
    let text = format!(
        "{BEGIN}02:19:05 PM      UID       PID    %usr %system  Command\n02:19:06 PM        0      7    20.00    0.00  python\n\n\
         02:19:05 PM      UID       PID   kB_rd/s   kB_wr/s  Command\n02:19:06 PM        0      7      10.00      2.00  python\n\
         02:19:06 PM        0      9      10.00      2.00  other\n"
    );
    let imported = pidstat(text.as_bytes(), &context()).unwrap();
    assert_eq!((imported.pid, imported.readings.len(), imported.notes.len()), (Some(7), 1, 1));
    let process = imported.readings[0].process.as_ref().unwrap();
    assert_eq!((process.ticks.0, process.io.unwrap().read_bytes), (2000, 10_240));
    assert_eq!(imported.readings[0].unix_ms, 1_795_702_746_000);
}

#[test]
fn sars_tables_of_a_moment_are_one_reading() {
    let text = format!(
        "{BEGIN}14:19:01        CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
         14:19:02        all     32.00     8.50      9.50      0.00      0.00      50.00\n\n\
         14:19:01    kbmemfree   kbavail kbmemused  %memused kbbuffers  kbcached\n\
         14:19:02      1000   3000   500     12.5     100  2400\n\n\
         14:19:01          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util\n\
         14:19:02          vda     40.00    75.00     25.00     0.00      5.12      0.50      2.00      40.00\n\n\
         14:19:01        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s\n\
         14:19:02           lo      0.00      0.00      9.00      9.00\n14:19:02         eth0      0.00      0.00      2.00      1.00\n"
    );
    let imported = sar(text.as_bytes(), &context()).unwrap();
    let [reading] = &imported.readings[..] else { panic!() };
    let cpu = &reading.cpus[0];
    assert_eq!((cpu.user, cpu.nice, cpu.system, cpu.idle), (3200, 850, 950, 5000));
    assert_eq!(reading.memory, Some((4000 << 10, 3000 << 10)));
    let disk = &reading.disks[0];
    assert_eq!((disk.reads, disk.writes, disk.read_sectors, disk.busy_ms, disk.read_ms), (30, 10, 150, 400, 60));
    assert_eq!((reading.nets.len(), reading.nets[0].rx_bytes), (1, 2048));
}

#[test]
fn what_cannot_be_imported_is_one_line() {
    let comma = "14:19:05 UID PID %usr %system Command\n14:19:06 0 7 20,00 0,00 python\n";
    let threads = "14:19:05 UID TGID TID %usr Command\n14:19:06 0 - 7 20.00 python\n";
    for (text, part) in [(comma, "LC_ALL=C"), (threads, "without -t"), ("", "no process"), ("hello\n", "line 3")] {
        let error = pidstat(format!("{BEGIN}{text}").as_bytes(), &context()).unwrap_err().to_string();
        assert!(error.contains(part) && error.lines().count() == 1, "{error}");
    }
    assert!(sar(BEGIN.as_bytes(), &context()).unwrap_err().to_string().contains("no row"));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*", rows in proptest::collection::vec("[0-9:]{0,8} [-0-9. a-z%]*", 0..9)) {
        for header in ["14:19:05 UID PID %usr %system RSS kB_rd/s kB_wr/s", "14:19:05 CPU %user %idle", "14:19:05 DEV tps rkB/s"] {
            let _ = pidstat(format!("{BEGIN}{header}\n{text}\n{}", rows.join("\n")).as_bytes(), &context());
            let _ = sar(format!("{BEGIN}{header}\n{}", rows.join("\n")).as_bytes(), &context());
        }
        let _ = sar(text.as_bytes(), &context());
    }
}
