//! A sample without the directories of its machine, for recordings to share.
//!
//! Command lines, mount points and mount sources, control groups, reasons and files that threads wait for keep the last part of
//! each path. Addresses of other machines keep their port. Names of data files, and of other processes that the job does not wait
//! for, are left out. Everything that a verdict rests on stays, so only these names differ in the verdict. Each part of `sample`
//! says which texts it holds.

use std::net::IpAddr;
use std::sync::Arc;

use trainmon_sample::Sample;
use trainmon_sample::job::is_accelerator;
use trainmon_sample::private::{Private, TextKind};
use trainmon_sample::recording::Header;
use trainmon_sample::stacks::is_user_code;

/// Paths below these are the kernel's own, the same on every machine.
const KERNELS: [&str; 2] = ["/proc/", "/sys/"];

/// Device files that tell what kind of wait it is.
const DEVICES: [&str; 3] = ["/dev/nvidia", "/dev/pts/", "/dev/tty"];

/// What separates one path from the next, or from what it belongs to (`--data=/mnt/x`, `server:/export`).
fn separates(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '=' | ':' | ',' | ';' | '"' | '\'' | '`' | '(' | ')' | '[' | ']' | '<' | '>' | '|')
}

/// The text with each path in it cut to its last part.
pub fn without_directories(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if separates(first) {
            result.push(first);
            rest = rest.get(first.len_utf8()..).unwrap_or("");
            continue;
        }
        let (word, after) = rest.split_at(rest.find(separates).unwrap_or(rest.len()));
        result.push_str(last_part(word));
        rest = after;
    }
    result
}

fn last_part(word: &str) -> &str {
    if KERNELS.iter().any(|kernels| word.starts_with(kernels)) {
        return word;
    }
    let trimmed = word.trim_end_matches('/');
    match trimmed.rsplit('/').next() {
        // The root, or no path at all.
        None | Some("") => word,
        Some(last) => last,
    }
}

/// What follows the last slash; a mount point may hold any character.
fn base_name(path: &str) -> Arc<str> {
    last_part(path).into()
}

/// The header without directories.
pub fn header(header: &Header) -> Header {
    Header { command: without_directories(&header.command), ..header.clone() }
}

/// The sample without directories.
pub fn sample(sample: &Sample) -> Sample {
    let mut sample = sample.clone();
    sample.leave_out();
    sample.visit_texts(&mut |kind, text| {
        *text = match kind {
            TextKind::Command | TextKind::Prose => without_directories(text).into(),
            TextKind::Name | TextKind::Path => base_name(text),
            TextKind::OwnCommand => return,
            TextKind::Link => link(text),
            TextKind::CodeFile => code_file(text),
            TextKind::Address => elsewhere(text),
        }
    });
    sample
}

/// A file that a thread waits for. Device files stay: they are the same on every machine, and the kind of a wait follows from them.
fn link(link: &Arc<str>) -> Arc<str> {
    let is_device = DEVICES.iter().any(|gpu| link.starts_with(gpu)) || is_accelerator(link);
    if is_device { Arc::clone(link) } else { base_name(link) }
}

/// An address with its port. One of this machine stays; any other keeps only the port, which says what kind of service it is.
fn elsewhere(remote: &Arc<str>) -> Arc<str> {
    let (host, port) = remote.rsplit_once(':').unwrap_or((remote, ""));
    let host = host.trim_matches(['[', ']']);
    let own = host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
    if own { Arc::clone(remote) } else { format!("elsewhere:{port}").into() }
}

/// A file of code. Installed packages and the standard library keep the path below their folder, which is the same on every
/// machine; the user's own code keeps only the name.
fn code_file(path: &str) -> Arc<str> {
    if is_user_code(path) {
        return base_name(path);
    }
    installed(path).unwrap_or(path).into()
}

/// The path from the folder of installed packages or the standard library on.
fn installed(path: &str) -> Option<&str> {
    let known = ["/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python"];
    known.iter().filter_map(|part| path.rfind(part)).min().and_then(|at| path.get(at..))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use trainmon_sample::sampler::{Descriptor, Observation};
    use trainmon_sample::{
        Channel, ConnectionsSample, DataMount, HostSample, JobSample, LockWait, OtherProcessProcess,
        OtherProcessesSample, ProcessSample, SamplerSample, Software, StorageSample, ThreadSample,
    };

    #[test]
    fn command_lines_keep_what_is_no_directory() {
        for (given, wanted) in [
            ("/usr/bin/python3 /home/ann/train.py --data=/mnt/a/b/ -j 4", "python3 train.py --data=b -j 4"),
            ("python -m torch.distributed.run ../x/train.py", "python -m torch.distributed.run train.py"),
            ("python train.py --lr 1e-4", "python train.py --lr 1e-4"),
            ("sh -c cd / && ./go", "sh -c cd / && go"),
            ("cannot load /opt/x/libnvidia-ml.so.1: no such file", "cannot load libnvidia-ml.so.1: no such file"),
            ("no rights to read /proc/7/syscall", "no rights to read /proc/7/syscall"),
            ("", ""),
        ] {
            assert_eq!(without_directories(given), wanted);
        }
    }

    #[test]
    fn mounts_name_no_host_and_no_directory() {
        let mount = DataMount {
            mount_point: "/mnt/my data/set".into(),
            source: "files.example.org:/export/sets".into(),
            examples: vec!["/mnt/my data/set/patient-7.npy".into()],
            ..DataMount::default()
        };
        let storage = StorageSample { mounts: Some(vec![mount]), ..StorageSample::default() };
        let thread = ThreadSample { name: "/e/f".into(), ..ThreadSample::default() };
        let process =
            ProcessSample { command: "/a/b /c/d".into(), threads: vec![thread], ..ProcessSample::default() };
        let job = JobSample { processes: vec![process], ..JobSample::default() };
        let other_process = OtherProcessProcess {
            comm: "secret".into(),
            command: "/home/ann/secret --all".into(),
            uid: Some(1000),
            cpu_ticks: 90,
            ..OtherProcessProcess::default()
        };
        let before = Sample {
            storage: Some(Arc::new(storage)),
            job: Some(Arc::new(job)),
            other_processes: Some(Arc::new(OtherProcessesSample {
                processes: vec![other_process],
                ..OtherProcessesSample::default()
            })),
            ..Sample::default()
        };
        let after = sample(&before);
        let mount = &after.storage.unwrap().mounts.clone().unwrap()[0];
        assert_eq!((&*mount.mount_point, &*mount.source, &mount.examples[..]), ("set", "sets", &[][..]));
        let process = &after.job.unwrap().processes[0];
        assert_eq!((&*process.command, &*process.threads[0].name), ("b d", "f"));
        let other_process = &after.other_processes.unwrap().processes[0];
        assert_eq!((&*other_process.comm, &*other_process.command, other_process.uid), ("process", "", None));
        assert_eq!(other_process.cpu_ticks, 90);
    }

    #[test]
    fn what_is_waited_for_names_no_other_machine_and_no_directory() {
        let links = ["/home/ann/cache.lock", "/dev/nvidia0", "/dev/pts/4", "pipe:[77]", "anon_inode:[eventpoll]"];
        let descriptors = links.map(|link| Descriptor { link: link.into(), writes: false }).to_vec();
        let remotes =
            ["10.0.3.7:443", "127.0.0.1:4321", "[::1]:80", "[2001:db8::7]:6379", "::ffff:127.0.0.1:9", "ann"];
        let channel =
            |remote: &str| Channel { link: "socket:[5]".into(), remote: Some(remote.into()), ..Channel::default() };
        let outside = vec![ProcessSample {
            command: "/home/ann/log /x/y".into(),
            comm: "log".into(),
            ..ProcessSample::default()
        }];
        let locks = vec![LockWait { path: Some("/home/ann/runs.db".into()), ..LockWait::default() }];
        let channels = remotes.map(channel).to_vec();
        let connections = ConnectionsSample { channels, locks, outside, ..ConnectionsSample::default() };
        let seen = vec![Observation { descriptors, ..Observation::default() }];
        let sampler = SamplerSample { seen, ..SamplerSample::default() };
        let job = JobSample { connections: Some(Arc::new(connections)), sampler, ..JobSample::default() };
        let job = sample(&Sample { job: Some(Arc::new(job)), ..Sample::default() }).job.unwrap();
        let links: Vec<&str> = job.sampler.seen[0].descriptors.iter().map(|descriptor| &*descriptor.link).collect();
        assert_eq!(links, ["cache.lock", "/dev/nvidia0", "/dev/pts/4", "pipe:[77]", "anon_inode:[eventpoll]"]);
        let connections = job.connections.clone().unwrap();
        let remotes: Vec<&str> =
            connections.channels.iter().filter_map(|channel| channel.remote.as_deref()).collect();
        let left = "elsewhere:443 127.0.0.1:4321 [::1]:80 elsewhere:6379 ::ffff:127.0.0.1:9 elsewhere:";
        assert_eq!(remotes.join(" "), left);
        assert_eq!(&*connections.outside[0].command, "log y");
        assert_eq!(connections.locks[0].path.as_deref(), Some("runs.db"));
    }

    #[test]
    fn the_machine_has_no_name_but_still_a_kind() {
        let text = |text: &str| Some(Arc::from(text));
        let host = HostSample {
            name: text("gpu-17.example.org"),
            cpu_model: text("AMD EPYC 7763"),
            ..HostSample::default()
        };
        let software = Software { python: text("3.12.4"), torch: text("2.6.0+cu124") };
        let job = JobSample { software: software.clone(), ..JobSample::default() };
        let before = Sample { host: Some(Arc::new(host)), job: Some(Arc::new(job)), ..Sample::default() };
        let after = sample(&before);
        let host = after.host.unwrap();
        assert_eq!((&host.name, host.cpu_model.as_deref()), (&None, Some("AMD EPYC 7763")));
        assert_eq!(after.job.unwrap().software, software);
    }

    #[test]
    fn code_is_still_told_apart() {
        for (given, wanted) in [
            ("/home/ann/project/train.py", "train.py"),
            (
                "/home/ann/v/lib/python3.11/site-packages/torch/optim/sgd.py",
                "/lib/python3.11/site-packages/torch/optim/sgd.py",
            ),
            ("/home/ann/.pyenv/lib/python3.11/threading.py", "/lib/python3.11/threading.py"),
            ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
        ] {
            assert_eq!(&*code_file(given), wanted);
            assert_eq!(is_user_code(given), is_user_code(wanted));
        }
    }

    proptest! {
        #[test]
        fn no_directory_is_left_in_any_text(text in "\\PC*|([a-z/ =:.]{0,30})") {
            let cut = without_directories(&text);
            for word in cut.split(separates) {
                let kernels = KERNELS.iter().any(|kernels| word.starts_with(kernels));
                prop_assert!(kernels || !word.contains('/') || word.trim_matches('/').is_empty(), "{}", word);
            }
            prop_assert_eq!(without_directories(&cut), cut);
        }
    }
}
