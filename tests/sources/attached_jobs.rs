//! Several real jobs behind one screen: each keeps its own past, one can be let go, and what cannot be attached to is told.

use std::time::Duration;

use trainmon::cli::DemoBottleneck;
use trainmon::commands::{attach_options, sources};
use trainmon::config::{Call, Settings};
use trainmon::demo::{DemoJob, python};
use trainmon::history::archive::Limits;
use trainmon::jobs::attached::AttachedJobs;
use trainmon::jobs::candidates::polling::{self, Candidates};
use trainmon::jobs::session::{Session, block_on};
use trainmon::jobs::{JobEvent, JobKey, Target};
use trainmon::tui::{App, AppOptions, Effect, Job, Message};

fn settings() -> Settings {
    Settings { interval: Duration::from_millis(200), stacks: false, ..Settings::default() }
}

async fn ticks(jobs: &mut AttachedJobs, app: &mut App, count: usize) {
    for _ in 0..count {
        let (key, tick) = tokio::time::timeout(Duration::from_secs(10), jobs.next()).await.expect("a tick");
        app.update(Message::Job(key, JobEvent::Tick(tick)));
    }
}

#[test]
fn two_jobs_are_watched_at_once_and_one_is_let_go() {
    let first = DemoJob::start(&python::find().unwrap(), DemoBottleneck::Gpu, None).unwrap();
    let second = DemoJob::start(&python::find().unwrap(), DemoBottleneck::DataLoader, None).unwrap();
    let settings = settings();
    let done = block_on(async {
        let session = Session::attach(attach_options(&settings, first.pid(), Some(&first.device_path)))?;
        let job = Job::new(JobKey::default(), session.target(), 0.2, Limits::default());
        let mut app = App::new(job, AppOptions::default(), (80, 24));
        let mut attached = AttachedJobs::new(session);
        ticks(&mut attached, &mut app, 2).await;

        // Limits were said of the job that trainmon was started for: another one's ends nothing.
        let call = Call { iterations: Some(1), duration: Some(Duration::from_millis(1)), ..Call::default() };
        let limited = Settings { call, ..settings.clone() };
        let (key, target) = attached.attach(attach_options(&limited, second.pid(), None))?;
        app.update(Message::Attached(key, target));
        attached.want(app.needs(), app.job().key);
        ticks(&mut attached, &mut app, 8).await;
        assert!(!attached.is_over());
        assert_eq!((app.jobs().len(), app.job().key), (2, key));
        for job in app.jobs() {
            assert!(job.archive().len() >= 2, "{:?} has {}", job.key, job.archive().len());
            assert_eq!(job.latest_verdict().unwrap().pid, job.target.pid);
        }

        let line = attached.attach(attach_options(&settings, 4_000_000_000, None)).unwrap_err().to_string();
        assert!(line.contains("4000000000") && !line.contains('\n'), "{line}");

        attached.detach(JobKey::default());
        let before = app.jobs()[0].archive().len();
        ticks(&mut attached, &mut app, 4).await;
        assert_eq!(app.jobs()[0].archive().len(), before);

        // The second one's end is told once it has come, and nothing more comes from it.
        drop(second);
        for _ in 0..20 {
            if app.job().ended.is_some() {
                break;
            }
            ticks(&mut attached, &mut app, 1).await;
        }
        assert!(app.job().ended.as_deref().is_some_and(|text| text.contains("ended")));
        assert!(app.job().summary().unwrap().watched_s > 0.5);
        let more = tokio::time::timeout(Duration::from_millis(500), attached.next()).await;
        assert!(more.is_err(), "an ended job sends nothing");
        Ok(())
    });
    done.unwrap();
}

#[test]
fn the_limits_of_the_first_job_end_the_session() {
    let job = DemoJob::start(&python::find().unwrap(), DemoBottleneck::Gpu, None).unwrap();
    let call = Call { iterations: Some(2), ..Call::default() };
    let settings = Settings { call, ..settings() };
    let done = block_on(async {
        let session = Session::attach(attach_options(&settings, job.pid(), Some(&job.device_path)))?;
        let job = Job::new(JobKey::default(), session.target(), 0.2, Limits::default());
        let mut app = App::new(job, AppOptions::default(), (80, 24));
        let mut attached = AttachedJobs::new(session);
        // The first tick has no interval and does not count.
        ticks(&mut attached, &mut app, 2).await;
        assert!(!attached.is_over());
        ticks(&mut attached, &mut app, 1).await;
        assert!(attached.is_over());
        Ok(())
    });
    done.unwrap();
}

#[test]
fn candidates_come_while_they_are_wanted_and_only_then() {
    let settings = settings();
    let done = block_on(async {
        let mut candidates = Candidates::new(sources(&settings, None));
        assert!(tokio::time::timeout(Duration::from_millis(200), candidates.next()).await.is_err());
        candidates.want(Some(polling::FOR_A_LIST));
        for look in 0..2 {
            // A look may be given up on and taken again: keys come in between.
            let _ = tokio::time::timeout(Duration::from_millis(1), candidates.next()).await;
            let list = tokio::time::timeout(Duration::from_secs(10), candidates.next()).await.expect("a list");
            let own = std::process::id();
            assert!(list.iter().all(|candidate| candidate.pid != own), "look {look}");
        }
        candidates.want(None);
        assert!(tokio::time::timeout(Duration::from_millis(200), candidates.next()).await.is_err());
        Ok(())
    });
    done.unwrap();
}

#[test]
fn an_effect_for_a_job_that_is_attached_already_is_not_needed() {
    let job = Job::new(JobKey::default(), Target { pid: 5, command: "x".into() }, 1.0, Limits::default());
    let mut app = App::new(job, AppOptions::default(), (80, 24));
    for key in ['o', 'p', '5'] {
        app.update(Message::Key(crossterm::event::KeyCode::Char(key).into()));
    }
    let effects = app.update(Message::Key(crossterm::event::KeyCode::Enter.into()));
    assert_eq!(effects, [Effect::Redraw]);
}
