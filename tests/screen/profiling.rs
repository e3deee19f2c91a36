//! The key that asks the job for a profile: what the screen says meanwhile, what gives it up, and the page that opens.

use std::sync::Arc;
use std::time::Duration;

use crate::app::*;
use crate::profile::account;
use crossterm::event::KeyCode;
use trainmon::diagnosis::verdict::{Evidence, EvidenceFrom, Steps};
use trainmon::diagnosis::{Signal, Verdict};
use trainmon::profiles::account::{ProfileAccount, ProfileSource};
use trainmon::profiles::asked::{ProfileStage, ProfileWindow};
use trainmon::sample::Sample;
use trainmon::text::format::Unit;
use trainmon::tui::keys::{Action, key_of};
use trainmon::tui::pages::Page;
use trainmon::tui::{App, AppOptions, Effect, Message};

const SMALL: (u16, u16) = (80, 24);
const SIZES: [(u16, u16); 2] = [SMALL, (120, 40)];
const ASKING: &str = "profile: asking the job · Esc gives up";
const NOT_STARTED: &str = "process 1234 was not started to be profiled: start it with `trainmon run -- CMD`, or with \
                           KINETO_USE_DAEMON=1 in its environment";

fn last_row(app: &App) -> String {
    rows(&draw(app, app.size())).pop().unwrap()
}

fn ask(app: &mut App) -> Vec<Effect> {
    press(app, KeyCode::Char('p'))
}

/// The job's profile comes with its next tick.
fn come(app: &mut App) {
    app.update(Message::Profile(JobKey::default(), Ok(())));
    tick_with_profile(app, JobKey::default());
}

fn tick_with_profile(app: &mut App, key: JobKey) {
    let profile = Arc::new(ProfileAccount { source: ProfileSource::Kineto, file: None, ..account() });
    let steps = Steps { p50_ms: Some(100.0), ..Steps::default() };
    let judged =
        Verdict { profile: Some(Arc::clone(&profile)), profile_age_s: Some(0.0), steps, ..crate::profile::judged() };
    let verdict = Verdict { command: data_loader().command, ..judged };
    let mut tick = tick(app, key, frame(91, crate::app::Job::default()), verdict);
    tick.sample = Arc::new(Sample { account: Some(profile), ..Sample::default() });
    app.update(Message::Job(key, JobEvent::Tick(Arc::new(tick))));
}

#[test]
fn the_screen_goes_on_while_the_job_is_asked_and_opens_the_page() {
    for size in SIZES {
        let name = |what: &str| format!("profile_{what}_{}x{}", size.0, size.1);
        let mut app = running(PLAIN, size, crate::app::Job::default());
        // The process whose loop it is.
        assert_eq!(ask(&mut app), [Effect::Profile(JobKey::default(), vec![1234]), Effect::Redraw]);
        insta::assert_snapshot!(name("asking"), text(&app, size));
        // Other pages can be looked at meanwhile, and the next sample changes nothing.
        press(&mut app, KeyCode::Char('3'));
        tell(&mut app, frame(90, crate::app::Job::default()), data_loader());
        assert!(app.page() == Page::Gpu && last_row(&app).contains(ASKING), "{}", text(&app, size));
        come(&mut app);
        assert_eq!(app.page(), Page::Profile);
        let screen = text(&app, size);
        assert!(last_row(&app).contains("the profile is taken: 131 ms a step in it, 100 ms without"));
        assert!(screen.contains("taken just now · ") && !screen.contains("step.json.gz ·"), "{screen}");
        insta::assert_snapshot!(name("arrived"), screen);
        // Later the footer is back, and the profile grows old.
        let verdict = app.job().verdict().unwrap().clone();
        let older = Verdict { profile_age_s: Some(131.0), ..verdict };
        tell(&mut app, frame(92, crate::app::Job::default()), older);
        press(&mut app, KeyCode::Down);
        assert!(text(&app, size).contains("taken 2m11s ago · "), "{}", text(&app, size));
        assert!(last_row(&app).contains("? help") && !last_row(&app).contains("profile is taken"));
    }
}

#[test]
fn the_footer_says_how_far_the_profile_is() {
    let (job, other) = (JobKey::default(), JobKey(1));
    for size in SIZES {
        let mut app = running(PLAIN, size, crate::app::Job::default());
        let stage = ProfileStage::Asking(Duration::from_secs(12));
        assert_eq!(app.update(Message::ProfileStage(job, stage)), [], "nothing was asked for");
        ask(&mut app);
        for (stage, told) in [
            (stage, "profile: asking the job (up to 12 s) · Esc gives up"),
            (ProfileStage::Recording(ProfileWindow::default()), "profile: recording 0.5 s · Esc gives up"),
            (ProfileStage::Writing(8), "profile: the job writes its trace (8 s) · Esc gives up"),
            (ProfileStage::Reading, "profile: reading the trace · Esc gives up"),
        ] {
            assert_eq!(app.update(Message::ProfileStage(job, stage)), [Effect::Redraw]);
            assert!(last_row(&app).contains(told), "{}", text(&app, size));
            assert_eq!(app.update(Message::ProfileStage(other, ProfileStage::Writing(1))), []);
        }
        // What comes late changes nothing.
        press(&mut app, KeyCode::Esc);
        app.update(Message::ProfileStage(job, ProfileStage::Reading));
        assert!(last_row(&app).contains("giving up the profile"), "{}", text(&app, size));
    }
}

#[test]
fn the_page_of_evidence_says_when_the_profile_was_taken_and_what_was_counted_in_it() {
    for size in [(120, 40), (200, 60)] {
        let mut app = running(PLAIN, size, crate::app::Job::default());
        let number = |value, from| Evidence {
            signal: Signal::GpuBusy,
            value: Some(value),
            unit: Unit::Share,
            threshold: None,
            text: Signal::GpuBusy.label().into(),
            from: Some(from),
        };
        let verdict = Verdict {
            evidence: vec![number(0.41, EvidenceFrom::Profile), number(0.61, EvidenceFrom::Outside)],
            profile: Some(account().into()),
            profile_age_s: Some(41.0),
            profile_unix_ms: Some(1_764_252_192_000),
            ..data_loader()
        };
        tell(&mut app, frame(91, crate::app::Job::default()), verdict);
        type_text(&mut app, key_of(Action::Go(Page::Findings)));
        let screen = text(&app, size);
        for told in [
            "Profile of 14:03:12, taken 41 s ago.",
            "41%",
            "GPU busy, in the profile",
            "61%",
            "GPU busy, from outside",
        ] {
            assert!(screen.contains(told), "{told}\n{screen}");
        }
    }
}

#[test]
fn why_no_profile_could_be_taken_is_told_until_the_next_key() {
    for size in SIZES {
        let mut app = running(PLAIN, size, crate::app::Job::default());
        ask(&mut app);
        app.update(Message::Profile(JobKey::default(), Err(NOT_STARTED.into())));
        let screen = text(&app, size);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert!(words(&screen).contains(NOT_STARTED), "{screen}");
        insta::assert_snapshot!(format!("profile_failed_{}x{}", size.0, size.1), screen);
        assert_eq!(app.page(), Page::Overview);
        press(&mut app, KeyCode::Down);
        assert!(!text(&app, size).contains("process 1234 was not started"));
        // It can be tried again.
        assert_eq!(ask(&mut app).first(), Some(&Effect::Profile(JobKey::default(), vec![1234])));
    }
}

#[test]
fn escape_and_the_same_key_give_it_up() {
    for code in [KeyCode::Esc, KeyCode::Char('p')] {
        let mut app = running(PLAIN, SMALL, crate::app::Job::default());
        press(&mut app, KeyCode::Char('3'));
        ask(&mut app);
        // What is on top closes first.
        press(&mut app, KeyCode::Char('e'));
        press(&mut app, KeyCode::Esc);
        assert!(last_row(&app).contains(ASKING));
        assert_eq!(press(&mut app, code), [Effect::GiveUpProfile, Effect::Redraw]);
        assert!(last_row(&app).contains("giving up the profile"));
        assert_eq!(ask(&mut app), [], "until it is given up");
        app.update(Message::Profile(JobKey::default(), Err("given up: the job goes on".into())));
        assert_eq!((last_row(&app).as_str(), app.page()), ("given up: the job goes on", Page::Gpu));
        // A profile that no key has asked for opens nothing.
        tick_with_profile(&mut app, JobKey::default());
        assert_eq!(app.page(), Page::Gpu);
        press(&mut app, KeyCode::Esc);
        assert_eq!(app.page(), Page::Overview);
    }
}

#[test]
fn on_a_thin_line_the_profile_is_shown_at_once() {
    let options = AppOptions { theme: PLAIN, low_bandwidth: true, ..AppOptions::default() };
    let mut app = App::new(job(), options, SMALL);
    let verdict = Verdict { profile: None, ..crate::profile::judged() };
    tell(&mut app, frame(90, crate::app::Job::default()), Verdict { command: data_loader().command, ..verdict });
    ask(&mut app);
    come(&mut app);
    assert!(text(&app, SMALL).contains("taken just now"), "{}", text(&app, SMALL));
}

#[test]
fn the_page_does_not_open_over_what_is_looked_at() {
    // A question, a list, a moment of the past.
    for keys in ["e", "o", " "] {
        let mut app = running(PLAIN, SMALL, crate::app::Job::default());
        ask(&mut app);
        type_text(&mut app, keys);
        come(&mut app);
        assert_eq!(app.page(), Page::Overview, "{keys:?}");
        assert!(text(&app, SMALL).contains("the profile is taken: 0 shows it"), "{keys:?}\n{}", text(&app, SMALL));
    }
    let mut app = running(PLAIN, SMALL, crate::app::Job::default());
    ask(&mut app);
    app.update(Message::Attached(JobKey(1), Target { pid: 77, command: "python other.py".into() }));
    assert!(last_row(&app).contains(ASKING));
    come(&mut app);
    assert_eq!((app.job().key, app.page()), (JobKey(1), Page::Overview));
    assert!(last_row(&app).contains("the profile is taken"));
}

#[test]
fn the_processes_of_all_ranks_are_asked_and_the_attached_one_where_no_loop_is_known() {
    let mut app = fresh(PLAIN, SMALL);
    assert_eq!(ask(&mut app)[0], Effect::Profile(JobKey::default(), vec![app.job().target.pid]));
    let mut app = fresh(PLAIN, SMALL);
    let mut frame = frame(1, crate::app::Job::default());
    let mut second = frame.ranks[0].clone();
    second.id = id(1235);
    frame.ranks.push(second);
    tell(&mut app, frame, data_loader());
    assert_eq!(ask(&mut app)[0], Effect::Profile(JobKey::default(), vec![1234, 1235]));
}

#[test]
fn only_a_running_job_that_may_be_slowed_down_is_asked() {
    let refused = |app: &mut App, why: &str| {
        assert_eq!(ask(app), [Effect::Redraw]);
        assert!(last_row(app).contains(why), "{}", last_row(app));
    };
    let mut app = App::new(job().recording(), AppOptions { theme: PLAIN, ..AppOptions::default() }, SMALL);
    tell(&mut app, frame(1, crate::app::Job::default()), data_loader());
    refused(&mut app, "this is a recording: a profile needs a running job");
    let mut app = running(PLAIN, SMALL, crate::app::Job::default());
    tell_end(&mut app, Some(90.0));
    press(&mut app, KeyCode::Esc);
    refused(&mut app, "the job has ended: a profile needs a running job");
    let mut app = App::new(job(), AppOptions { theme: PLAIN, may_profile: false, ..AppOptions::default() }, SMALL);
    tell(&mut app, frame(1, crate::app::Job::default()), data_loader());
    refused(&mut app, "a profile slows the job down for a moment: start trainmon without --readonly");
}

#[test]
fn the_key_is_in_the_footer_and_the_help() {
    let wide = (200, 60);
    let mut app = running(PLAIN, wide, crate::app::Job::default());
    press(&mut app, KeyCode::Char('0'));
    assert!(last_row(&app).contains("p take one"), "{}", last_row(&app));
    press(&mut app, KeyCode::Char('?'));
    let help = text(&app, wide);
    assert!(help.contains("ask the running job for a profile of half a second; again: give up"), "{help}");
}
