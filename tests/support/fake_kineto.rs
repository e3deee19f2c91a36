//! A stand-in for a job of torch that was started to be profiled: it does no training, and asks the daemon's socket for a
//! configuration as libkineto does (see `crates/profiling/src/kineto.rs`). With one it waits until the window is over, and then writes a
//! trace to where the configuration says, under another name first.
//!
//! ```text
//! KINETO_USE_DAEMON=1 fake_kineto --trace tests/fixtures/profiles/waits-item.json [OPTION…]
//!
//! --trace FILE      the trace to write; `{rank}` in its name stands for RANK
//! --asks NUMBER     how often it asks, times a second (10; libkineto asks once a second at most)
//! --never-asks      it has no torch: it asks for nothing
//! --looks SECONDS   how seldom it looks for a configuration that came (0): one whose time is over by then is dropped
//! --writes SECONDS  how long it takes to write the trace (0)
//! --garbage         it writes something that is no trace
//! --no-trace        it takes the configuration and writes nothing, as on a full disk
//! --ends            it ends as soon as it has a configuration
//! ```
//!
//! Its environment says the rest, as that of a job does: `KINETO_USE_DAEMON`, without which it asks for nothing either,
//! `KINETO_IPC_SOCKET_DIR` for sockets that are files, `KINETO_ONDEMAND_TRACE_DIR`, which trainmon reads, and `RANK` and
//! `MASTER_PORT` for one of several ranks. It prints each configuration, and `wrote FILE`. It runs until it is ended.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "for tests")]

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Length and kind of a message, bytes.
const HEAD: usize = 40;
/// What a request is for, in bits: events and activities.
const EVENTS: i32 = 1;
const ACTIVITIES: i32 = 2;

/// What it is told to do.
struct Wishes {
    trace: Option<String>,
    every: Duration,
    asks: bool,
    garbage: bool,
    writes: bool,
    writes_for: Duration,
    looks: Duration,
    ends: bool,
}

impl Wishes {
    fn of_arguments() -> Self {
        let asks = std::env::var_os("KINETO_USE_DAEMON").is_some();
        let every = Duration::from_millis(100);
        let mut wishes = Self {
            trace: None,
            every,
            asks,
            garbage: false,
            writes: true,
            writes_for: Duration::ZERO,
            looks: Duration::ZERO,
            ends: false,
        };
        let seconds = |value: Option<String>| value.unwrap().parse::<f64>().unwrap();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--trace" => wishes.trace = arguments.next(),
                "--asks" => {
                    wishes.every = Duration::from_secs_f64(1.0 / seconds(arguments.next()));
                }
                "--looks" => wishes.looks = Duration::from_secs_f64(seconds(arguments.next())),
                "--writes" => wishes.writes_for = Duration::from_secs_f64(seconds(arguments.next())),
                "--never-asks" => wishes.asks = false,
                "--garbage" => wishes.garbage = true,
                "--no-trace" => wishes.writes = false,
                "--ends" => wishes.ends = true,
                other => panic!("{other} is no option"),
            }
        }
        wishes
    }

    /// The text to write.
    fn content(&self) -> Vec<u8> {
        if self.garbage {
            return b"{\"traceEvents\": [ {\"ph\": \"X\", \"na".to_vec();
        }
        let rank = std::env::var("RANK").unwrap_or_default();
        std::fs::read(self.trace.as_ref().expect("--trace FILE").replace("{rank}", &rank)).unwrap()
    }
}

fn main() -> ExitCode {
    let wishes = Wishes::of_arguments();
    if !wishes.asks {
        loop {
            sleep(Duration::from_secs(1));
        }
    }
    let client = Client::open();
    let mut registered = false;
    // When the window begins and the trace is due, and where it goes.
    let mut due: Option<([Instant; 2], PathBuf)> = None;
    loop {
        if !registered {
            registered = client.ask(b"ctxt", &context()).is_some();
        } else if let Some(configuration) =
            client.ask(b"req", &request(due.is_none())).filter(|text| !text.is_empty())
        {
            let configuration = String::from_utf8(configuration).unwrap();
            println!("{configuration}");
            if wishes.ends {
                return ExitCode::SUCCESS;
            }
            let (start, length, path) = window_of(&configuration);
            if start >= wishes.looks {
                let begins = Instant::now() + start;
                due = Some(([begins, begins + length], path));
            }
        }
        if let Some(([begins, _], path)) = &due
            && Instant::now() >= *begins
            && wishes.writes
            && !partial(path).exists()
        {
            std::fs::write(partial(path), "").unwrap();
        }
        if due.as_ref().is_some_and(|([_, ends], _)| Instant::now() >= *ends)
            && let Some((_, path)) = due.take()
            && wishes.writes
        {
            write(&path, &wishes.content(), wishes.writes_for);
        }
        let moments = due.iter().flat_map(|(moments, _)| moments);
        let next =
            moments.map(|moment| moment.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
        sleep(next.fold(wishes.every, Duration::min));
    }
}

/// Its socket, and the address of the daemon's.
struct Client {
    socket: UnixDatagram,
    daemon: SocketAddr,
    /// The folder of the sockets, if they are files.
    folder: Option<PathBuf>,
}

impl Client {
    fn open() -> Self {
        let folder = std::env::var_os("KINETO_IPC_SOCKET_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let own = format!("dynoconfigclient{}", std::process::id());
        let (own, daemon) = match &folder {
            Some(folder) => {
                [own.as_str(), "dynolog"].map(|name| SocketAddr::from_pathname(folder.join(name)).unwrap()).into()
            }
            // A zero byte ends an abstract name.
            None => [own.as_str(), "dynolog"]
                .map(|name| SocketAddr::from_abstract_name(format!("{name}\0")).unwrap())
                .into(),
        };
        let socket = UnixDatagram::bind_addr(&own).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        Self { socket, daemon, folder }
    }

    /// The body of the daemon's answer, if there is a daemon and it answers.
    fn ask(&self, kind: &[u8], body: &[u8]) -> Option<Vec<u8>> {
        let mut message = (body.len() as u64).to_ne_bytes().to_vec();
        message.extend_from_slice(kind);
        message.resize(HEAD, 0);
        message.extend_from_slice(body);
        self.socket.send_to_addr(&message, &self.daemon).ok()?;
        let mut room = vec![0; 4096];
        let (length, from) = self.socket.recv_from(&mut room).ok()?;
        let name = |address: &SocketAddr| {
            (address.as_pathname().map(Path::to_owned), address.as_abstract_name().map(<[u8]>::to_owned))
        };
        // libkineto ends its process here.
        assert_eq!(name(&from), name(&self.daemon), "an answer from another socket");
        let told = u64::from_ne_bytes(room[..8].try_into().unwrap());
        assert_eq!((told as usize + HEAD, room[8..].starts_with(kind)), (length, true), "an answer of another shape");
        Some(room[HEAD..length].to_vec())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_file(folder.join(format!("dynoconfigclient{}", std::process::id())));
        }
    }
}

/// GPU, PID and job.
fn context() -> Vec<u8> {
    [0_i32.to_ne_bytes(), std::process::id().cast_signed().to_ne_bytes()]
        .into_iter()
        .flatten()
        .chain(0_i64.to_ne_bytes())
        .collect()
}

/// What for, how many processes, the job, and the PIDs of the processes: itself and its parent.
fn request(free: bool) -> Vec<u8> {
    let kinds = if free { EVENTS | ACTIVITIES } else { EVENTS };
    let pids = [std::process::id(), std::os::unix::process::parent_id()];
    [kinds.to_ne_bytes(), 2_i32.to_ne_bytes()]
        .into_iter()
        .flatten()
        .chain(0_i64.to_ne_bytes())
        .chain(pids.into_iter().flat_map(|pid| pid.cast_signed().to_ne_bytes()))
        .collect()
}

/// The time until the window of a configuration, its length, and the file that it names with the PID.
fn window_of(configuration: &str) -> (Duration, Duration, PathBuf) {
    let value = |name: &str| {
        configuration.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    let millis = |name: &str| value(name).and_then(|value| value.parse().ok()).map(Duration::from_millis);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let start = millis("PROFILE_START_TIME").unwrap_or_default().saturating_sub(now);
    let length = millis("ACTIVITIES_DURATION_MSECS").unwrap_or(Duration::from_millis(300));
    let path = value("ACTIVITIES_LOG_FILE").unwrap();
    let stem = path.strip_suffix(".json").unwrap();
    (start, length, format!("{stem}_{}.json", std::process::id()).into())
}

/// The file until the trace is whole: it is there as soon as the window begins.
fn partial(path: &Path) -> PathBuf {
    path.with_extension("json.tmp")
}

fn write(path: &Path, content: &[u8], takes: Duration) {
    let partial = partial(path);
    std::fs::write(&partial, content).unwrap();
    sleep(takes);
    std::fs::rename(&partial, path).unwrap();
    println!("wrote {}", path.display());
}
