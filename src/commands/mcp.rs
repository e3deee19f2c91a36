//! `trainmon mcp`: answers an agent's client on standard input and output, by the Model Context Protocol. Each tool does the same
//! as the command of its name, with marks around all text from other programs.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{attach_options, compare, diagnose, doctor, explain, sources};
use crate::config::{Call, DIAGNOSE_DURATION, Settings};
use trainmon_attach::jobs::JobCandidate;
use trainmon_attach::jobs::candidates::scan::Scan;
use trainmon_attach::jobs::profile;
use trainmon_attach::jobs::session::{EndSignals, Session, SessionOptions, block_on};
use trainmon_attach::runs::whole::{self, ReadRun};
use trainmon_attach::runs::{self, traces};
use trainmon_base::errors::{self, ExitCode, Failure};
use trainmon_base::text::format::{bytes, counted, duration};
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_outputs::{explanation, markdown, text};
use trainmon_profiles::asked::ProfileWindow;
use trainmon_profiling::kineto::ProfileWish;
use trainmon_sample::{GpuSample, Sample, SourceState, SourceStatus};
use trainmon_serve::mcp::answer::{ToolAnswer, on_thread};
use trainmon_serve::mcp::server::{self, CallProgress, Worker};
use trainmon_serve::mcp::tools::{ToolCall, Watched};
use trainmon_serve::mcp::untrusted::{ForeignTexts, REASON_MAX, quote};
use trainmon_views::comparison::{AnyComparison, Comparison};
use trainmon_views::run_report::RunReport;

/// How long `list` waits for a driver.
const GPU_WAIT: Duration = Duration::from_secs(2);
/// Between the first two scans: rates need two.
const BETWEEN_SCANS: Duration = Duration::from_millis(500);
/// So many calls of `doctor` may wait for the driver.
const DRIVER_CALLS: usize = 4;
/// Progress is told this often.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// Rows of each table of a trace: an agent reads all of them.
const ROWS_FOR_AGENT: usize = 10;
/// Checks of `doctor` that say nothing but trainmon's own words.
const OWN_CHECKS: [&str; 9] =
    ["rights", "descriptors", "pressure", "syscall", "wchan", "io", "fd", "maps", "namespace"];

/// Serves until standard input ends, the client goes or a signal comes.
pub fn run(settings: &Settings) -> anyhow::Result<ExitCode> {
    if std::io::stdin().is_terminal() {
        errors::note("waiting for messages of an MCP client on standard input; Ctrl-C ends it");
    }
    let machine = Arc::new(ServedMachine::new(settings.clone()));
    block_on(server::serve(machine))?;
    Ok(ExitCode::DONE)
}

/// What calls share. A driver that hangs keeps the thread that asks it, so calls do not each ask it anew.
#[derive(Debug)]
struct ServedMachine {
    settings: Settings,
    /// From the first `list` on.
    scan: Mutex<Option<Scan>>,
    /// Held by each `doctor` that asks the driver.
    driver: Arc<()>,
}

impl ServedMachine {
    fn new(settings: Settings) -> Self {
        Self { settings, scan: Mutex::new(None), driver: Arc::new(()) }
    }

    /// What the GPUs report to `doctor`.
    fn gpus(&self) -> impl FnOnce() -> Result<GpuSample, SourceStatus> + Send + 'static {
        let (gpus, driver) =
            (trainmon_attach::doctor::gpus(super::sources(&self.settings, None)), Arc::clone(&self.driver));
        move || {
            if Arc::strong_count(&driver) > DRIVER_CALLS {
                return Err(SourceStatus::new(SourceState::Hung, "the driver has not answered earlier calls"));
            }
            gpus()
        }
    }
}

impl Worker for ServedMachine {
    async fn work(
        self: Arc<Self>,
        slot: Arc<()>,
        call: ToolCall,
        progress: CallProgress,
    ) -> anyhow::Result<ToolAnswer> {
        let machine = self;
        match call {
            ToolCall::Diagnose(Watched::Process(pid, duration)) => {
                let duration = duration.unwrap_or(DIAGNOSE_DURATION);
                let answer = watch(&machine.settings, (pid, duration), |passed, said| {
                    progress.tell(passed, duration.as_secs_f64(), &said)
                });
                let answer = answer.await;
                drop(slot);
                answer
            }
            ToolCall::Diagnose(Watched::Recording(path)) => {
                on_thread(slot, move |wanted| replay(&machine.settings, &path, wanted)).await
            }
            ToolCall::List => on_thread(slot, move |_| list(&machine)).await,
            ToolCall::Doctor(pid) => on_thread(slot, move |_| doctor(&machine, pid)).await,
            ToolCall::Report(path) => on_thread(slot, move |wanted| report(&machine.settings, &path, wanted)).await,
            ToolCall::Compare(before, after) => {
                on_thread(slot, move |wanted| compare(&machine.settings, [&before, &after], wanted)).await
            }
            ToolCall::Profile(pid, recorded) => {
                on_thread(slot, move |wanted| profile(&machine.settings, pid, recorded, wanted)).await
            }
            ToolCall::Explain(cause) => explain(cause.as_deref()),
        }
    }
}

/// `list`.
fn list(machine: &ServedMachine) -> anyhow::Result<ToolAnswer> {
    let mut scan = machine.scan.lock().unwrap_or_else(PoisonError::into_inner);
    let found = match &mut *scan {
        Some(scan) => scan.candidates(),
        none => {
            let first = none.insert(Scan::new(sources(&machine.settings, None), GPU_WAIT));
            first.candidates();
            thread::sleep(BETWEEN_SCANS);
            first.candidates()
        }
    };
    drop(scan);
    let mut list: Vec<Value> = found.iter().map(listed).collect();
    let mut lines = vec![match found.len() {
        0 => "No training process found. `diagnose` watches any other process by its PID.".to_owned(),
        count => format!("{} may be training:", counted(count, "process", "processes")),
    }];
    let foreign = ForeignTexts::default();
    for (value, candidate) in list.iter_mut().zip(&found) {
        foreign.mark_result(value, &mut []);
        let field = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let facts = [
            candidate.gpu_memory_bytes.map(|held| format!("GPU {}", bytes(Some(held).filter(|held| *held > 0)))),
            candidate.cpu_pct.map(|pct| format!("CPU {pct:.0}%")),
            Some(candidate.workers as usize)
                .filter(|count| *count > 0)
                .map(|count| counted(count, "worker", "workers")),
            field("library"),
            candidate.age_s.map(|age_s| format!("for {}", duration(age_s as f64))),
            field("user").map(|user| format!("user {user}")),
        ];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        lines.push(format!("PID {}: {}, {}", candidate.pid, field("command").unwrap_or_default(), facts.join(", ")));
    }
    Ok(ToolAnswer::noted(&lines.join("\n"), json!({ "processes": list })))
}

fn listed(candidate: &JobCandidate) -> Value {
    json!({
        "pid": candidate.pid,
        "user": candidate.user,
        "command": candidate.command,
        "age_s": candidate.age_s,
        "cpu_pct": candidate.cpu_pct,
        "rss_bytes": candidate.rss_bytes,
        "gpu_memory_bytes": candidate.gpu_memory_bytes,
        "gpu_pct": candidate.gpu_pct,
        "workers": candidate.workers,
        "library": candidate.library_name(),
    })
}

/// `diagnose` of a process. Tells how many seconds have passed, and what is known so far.
async fn watch(
    settings: &Settings,
    (pid, duration): (u32, Duration),
    progress: impl Fn(f64, String),
) -> anyhow::Result<ToolAnswer> {
    let options = attach_options(settings, pid, None);
    let mut session = Session::attach(SessionOptions { duration: Some(duration), iterations: None, ..options })?;
    let mut clock = tokio::time::interval(TOLD_EVERY);
    let (mut never, mut foreign) = (EndSignals::never(), ForeignTexts::default());
    let mut verdict: Option<Arc<Verdict>> = None;
    loop {
        tokio::select! {
            tick = session.next_before_end(&mut never) => {
                let Some(tick) = tick else { break };
                foreign.add_all(&*tick.sample);
                verdict = Some(Arc::clone(&tick.verdict));
            }
            _ = clock.tick() => {
                let left = session.remaining();
                let passed = duration.saturating_sub(left.unwrap_or_default()).as_secs_f64();
                progress(passed, diagnose::progress(pid, left, verdict.as_deref()));
            }
        }
    }
    session.check_measured()?;
    let verdict = verdict.ok_or_else(|| Failure::failed("no verdict: stopped before the first sample"))?;
    let ended = format!("Process {pid} ended after {:.0} s; the verdict covers that time.", verdict.observed_s);
    verdict_answer(&verdict, foreign, session.has_ended().then_some(ended))
}

/// `diagnose` of a recording or a trace.
fn replay(settings: &Settings, path: &Path, is_wanted: &dyn Fn() -> bool) -> anyhow::Result<ToolAnswer> {
    if traces::is_trace(path)? {
        let (verdict, left_out) = trace(path, is_wanted)?;
        return verdict_answer(&verdict, ForeignTexts::default(), left_out);
    }
    let mut foreign = ForeignTexts::default();
    let (verdict, missing) =
        runs::verdict(path, settings.gpus.as_deref(), |sample| collect(&mut foreign, sample, is_wanted))?;
    let missing = missing.map(|why| quote(&why, REASON_MAX));
    verdict_answer(&verdict, foreign, missing.map(|why| format!("The recording: {why}")))
}

/// `profile`.
fn profile(
    settings: &Settings,
    pid: u32,
    window: ProfileWindow,
    is_wanted: &dyn Fn() -> bool,
) -> anyhow::Result<ToolAnswer> {
    let verdict = profile::alone(&settings.proc_root, pid, ProfileWish { window, stacks: false }, &is_wanted)?;
    let (verdict, left_out) = with_first_rows(verdict);
    verdict_answer(&verdict, ForeignTexts::default(), left_out)
}

/// The verdict on a trace with the first rows of each table, and a note of what is left out.
fn trace(path: &Path, is_wanted: &dyn Fn() -> bool) -> anyhow::Result<(Verdict, Option<String>)> {
    let verdict = traces::verdict_while(&[path], is_wanted)?;
    Ok(with_first_rows(Arc::unwrap_or_clone(verdict)))
}

fn with_first_rows(mut verdict: Verdict) -> (Verdict, Option<String>) {
    let left_out = verdict.profile.as_mut().map_or(0, |account| Arc::make_mut(account).keep_rows(ROWS_FOR_AGENT));
    let note = format!("Tables of the profile have their first {ROWS_FOR_AGENT} rows: {left_out} rows are left out.");
    (verdict, (left_out > 0).then_some(note))
}

/// Keeps the texts of a sample, and says whether to go on.
fn collect(foreign: &mut ForeignTexts, sample: &Sample, is_wanted: &dyn Fn() -> bool) -> bool {
    foreign.add_all(sample);
    is_wanted()
}

/// A verdict as text and JSON, with a note above the text.
fn verdict_answer(verdict: &Verdict, mut foreign: ForeignTexts, note: Option<String>) -> anyhow::Result<ToolAnswer> {
    let mut json = serde_json::to_value(verdict)?;
    foreign.add_fields(&json);
    let mut page = [text::page(verdict, whole_page())];
    foreign.mark_result(&mut json, &mut page);
    let note = note.map(|note| note + "\n\n").unwrap_or_default();
    Ok(ToolAnswer::noted(&format!("{note}{}", page.concat()), json))
}

fn whole_page() -> text::Style {
    text::Style { full: true, width: usize::MAX, ..text::Style::default() }
}

/// `explain`: all of it is trainmon's own.
fn explain(cause: Option<&str>) -> anyhow::Result<ToolAnswer> {
    if let Some(unknown) = cause.and_then(explanation::unknown) {
        return Err(Failure::failed(unknown).into());
    }
    let (text, json) = explain::explained(cause);
    Ok(ToolAnswer { text, json })
}

/// `doctor`.
fn doctor(machine: &ServedMachine, pid: Option<u32>) -> anyhow::Result<ToolAnswer> {
    let call = Call { pid, ..machine.settings.call.clone() };
    let settings = Settings { call, ..machine.settings.clone() };
    let mut findings = doctor::findings(&settings, machine.gpus(), |name| std::env::var_os(name))?;
    // There is no screen to show.
    findings.retain(|finding| finding.what != "terminal");
    // What fixes the machine names nothing that a job has chosen.
    let is_machine = pid.is_none() && settings.proc_root == Path::new("/proc");
    let mut lines = Vec::new();
    for finding in &mut findings {
        if !OWN_CHECKS.contains(&finding.what) {
            finding.detail = quote(&finding.detail, REASON_MAX);
            finding.fix = finding.fix.take().map(|fix| if is_machine { fix } else { quote(&fix, REASON_MAX) });
        }
        let fix = finding.fix.as_ref().map(|fix| format!("; fix: {fix}")).unwrap_or_default();
        lines.push(format!("{}: {}: {}{fix}", finding.what, finding.state.word(), finding.detail));
    }
    let json = json!({ "schema": 1, "trainmon": env!("CARGO_PKG_VERSION"), "pid": pid, "findings": findings });
    Ok(ToolAnswer::noted(&lines.join("\n"), json))
}

/// Reads a run from its samples: the digests of a recording hold sentences, which a recording from elsewhere may have from
/// anyone.
fn read(
    settings: &Settings,
    path: &Path,
    foreign: &mut ForeignTexts,
    is_wanted: &dyn Fn() -> bool,
) -> anyhow::Result<ReadRun> {
    let read = whole::read_each(path, settings.gpus.as_deref(), false, |sample| collect(foreign, sample, is_wanted))?;
    foreign.add_command(&read.header.command);
    if read.header.trainmon != env!("CARGO_PKG_VERSION") {
        foreign.add(&read.header.trainmon, true);
    }
    foreign.add_fields(&serde_json::to_value(&read.run.environment)?);
    read.note.iter().for_each(|note| foreign.add(note, true));
    if let Some((verdict, _)) = read.run.verdict() {
        foreign.add_fields(&serde_json::to_value(&**verdict)?);
    }
    Ok(read)
}

/// `report`.
fn report(settings: &Settings, path: &Path, is_wanted: &dyn Fn() -> bool) -> anyhow::Result<ToolAnswer> {
    let mut foreign = ForeignTexts::default();
    if traces::is_trace(path)? {
        let (verdict, note) = trace(path, is_wanted)?;
        let json = report_json(path, (verdict.observed_s, None), None, Some(&verdict));
        foreign.add_fields(&json);
        let page = markdown::profile(&verdict, None) + &note.map(|note| format!("\n{note}\n")).unwrap_or_default();
        return Ok(marked(foreign, page, json));
    }
    let ReadRun { run, header, note } = read(settings, path, &mut foreign, is_wanted)?;
    let report = RunReport {
        run: &run,
        header: &header,
        note: note.clone(),
        zone: zone::local(),
        price: settings.price.clone(),
        title: None,
    };
    let verdict = report.verdict();
    let times_s = (run.totals.watched_s, verdict.map(|(_, held_s)| held_s));
    let json = report_json(path, times_s, note.as_deref(), verdict.map(|(verdict, _)| verdict));
    foreign.add_fields(&json);
    Ok(marked(foreign, markdown::run(&report), json))
}

/// The object of `report`: for how many seconds the run was watched and the verdict held, what is missing, and the verdict.
fn report_json(
    path: &Path,
    (watched_s, held_s): (f64, Option<f64>),
    note: Option<&str>,
    verdict: Option<&Verdict>,
) -> Value {
    json!({
        "schema": 1,
        "file": path.file_name().map(|name| name.to_string_lossy()),
        "watched_s": watched_s,
        "held_s": held_s,
        "note": note,
        "verdict": verdict,
    })
}

/// `compare`.
fn compare(settings: &Settings, paths: [&Path; 2], is_wanted: &dyn Fn() -> bool) -> anyhow::Result<ToolAnswer> {
    let mut foreign = ForeignTexts::default();
    if compare::are_traces(paths)? {
        let [before, after] = paths.map(|path| traces::verdict_while(&[path], is_wanted));
        let (before, after) = (before?, after?);
        let comparison = compare::compared_traces(paths, [&before, &after], None, ROWS_FOR_AGENT)?;
        for verdict in [&before, &after] {
            foreign.add_fields(&serde_json::to_value(&**verdict)?);
        }
        return compared(foreign, &comparison);
    }
    let [before, after] = paths.map(|path| read(settings, path, &mut foreign, is_wanted));
    let (before, after) = (before?, after?);
    let [before_path, after_path] = paths;
    let sides = (compare::compared(before_path, &before), compare::compared(after_path, &after));
    compared(foreign, &Comparison::new(sides.0, sides.1, None, ROWS_FOR_AGENT))
}

fn compared(mut foreign: ForeignTexts, comparison: &impl AnyComparison) -> anyhow::Result<ToolAnswer> {
    let json = serde_json::to_value(comparison.json())?;
    foreign.add_fields(&json);
    Ok(marked(foreign, text::comparison(&comparison.page(), whole_page()), json))
}

/// A page and an object with marks in them.
fn marked(foreign: ForeignTexts, page: String, mut json: Value) -> ToolAnswer {
    let mut page = [page];
    foreign.mark_result(&mut json, &mut page);
    ToolAnswer::noted(&page.concat(), json)
}
