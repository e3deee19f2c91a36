use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::super::ImportFormat;
use super::super::sysstat_rows::recognize;
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

/// As sysstat 10.1.5 writes it (CentOS 7): seconds since 1970, and no `%wait`.
#[test]
fn pidstat_before_sysstat_12_has_seconds_since_1970() {
    let begin = "Linux 3.10.0-1160.el7.x86_64 (node7) \t11/26/2026 \t_x86_64_\t(8 CPU)\n";
    let header = "\n#      Time   UID       PID    %usr %system  %guest    %CPU   CPU  minflt/s  majflt/s     VSZ    RSS   %MEM   kB_rd/s   kB_wr/s kB_ccwr/s  Command\n";
    let row = |second: u32| {
        format!(
            " 179570274{second}     0      2487   50.00   10.00    0.00   60.00     1      8.00      0.00 3619904   1000   3.07     64.00      0.00      0.00  python\n"
        )
    };
    let text = format!("{begin}{header}{}{header}{}", row(2), row(3));
    assert_eq!(recognize(&text), Some(ImportFormat::Pidstat));
    let imported = pidstat(text.as_bytes(), &context()).unwrap();
    assert_eq!((imported.pid, imported.interval_ms, imported.notes.len()), (Some(2487), 1000, 0));
    assert_eq!(imported.readings[0].unix_ms, 1_795_702_742_000);
    let last = imported.readings[1].process.as_ref().unwrap();
    assert_eq!((last.ticks, last.faults, last.rss_bytes), ((10_000, 2000), (16, 0), 1_024_000));
    assert_eq!((last.command.as_str(), last.io.unwrap().read_bytes), ("python", 131_072));
    // Older ones show no user, and one table after the other.
    let old = "02:19:05 PM       PID   %user %system    %CPU   CPU  Command\n02:19:06 PM         7   20.00    5.00   25.00     1  python\n";
    let imported = pidstat(format!("{begin}\n{old}").as_bytes(), &context()).unwrap();
    assert_eq!(imported.readings[0].process.as_ref().unwrap().ticks, (2000, 500));
}

#[test]
fn tables_without_their_first_line_are_of_the_day_of_the_file() {
    let table = "14:19:01        CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
                 14:19:02        all     32.00      8.50      9.50      0.00      0.00     50.00\n";
    let context = ImportContext { zone: TimeZone::UTC, written_ms: 1_795_710_000_000 };
    // Where the header was cut off too, the rows above the next one are left out.
    for head in ["", "\n", "14:19:00        all      1.00      1.00      1.00      1.00      1.00     95.00\n\n"] {
        let text = format!("{head}{table}");
        assert_eq!(recognize(&text), Some(ImportFormat::Sar), "{text}");
        let imported = sar(text.as_bytes(), &context).unwrap();
        assert_eq!((imported.readings.len(), imported.readings[0].unix_ms), (1, 1_795_702_742_000), "{text}");
        assert_eq!(imported.readings[0].cpus[0].user, 3200);
        assert!(imported.notes[0].contains("no date in it"), "{:?}", imported.notes);
    }
    assert!(sar(format!("{BEGIN}{table}").as_bytes(), &context).unwrap().notes.is_empty());
    let pidstat =
        "14:19:01      UID       PID    %usr %system  Command\n14:19:02        0      7    20.00    0.00  python\n";
    assert_eq!(recognize(pidstat), Some(ImportFormat::Pidstat));
    for other in ["", "hello\n", "14:19:02 hello\n", "# gpu   pwr\n", "a;b 3\n14:19:01 CPU\n"] {
        assert_eq!(recognize(other), None, "{other}");
    }
}

#[test]
fn sar_before_sysstat_12_counts_sectors_and_knows_no_available_memory() {
    let text = format!(
        "{BEGIN}14:19:01          DEV       tps  rd_sec/s  wr_sec/s  avgrq-sz  avgqu-sz     await     svctm     %util\n\
         14:19:02          sda     40.00    150.00     50.00      5.00      0.50      2.00      1.00     40.00\n\n\
         14:19:01    kbmemfree kbmemused  %memused kbbuffers  kbcached  kbcommit   %commit\n\
         14:19:02         1000      3000     75.00       100      1400       500      1.00\n"
    );
    let imported = sar(text.as_bytes(), &context()).unwrap();
    let disk = &imported.readings[0].disks[0];
    assert_eq!((disk.reads, disk.writes, disk.read_sectors, disk.written_sectors), (30, 10, 150, 50));
    assert_eq!((disk.busy_ms, disk.weighted_ms), (400, 500));
    assert_eq!(imported.readings[0].memory, Some((4000 << 10, 2500 << 10)));
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
