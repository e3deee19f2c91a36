//! Every key of the table on every page of the real program; what is asked first; saving by key.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use trainmon::tui::keys::{Action, TABLE};
use trainmon::tui::pages::Page;

use crate::process::{Target, pause, recording};
use crate::pty::{Conditions, ESC, Screen, key, typed};

/// Everything that neither quits nor suspends, on every page, of a job that runs and of a recording: the program goes on
/// answering, and its pages are still there. What the pages look like meanwhile is looked at without a terminal, in
/// `tests/screen/every_page.rs`.
#[test]
fn every_key_on_every_page_leaves_it_answering() {
    let to_help = Page::Help.spec().help;
    for arguments in
        [["demo", "--bottleneck", "gpu", "-i", "200ms"].as_slice(), &["replay", &recording("change.tmz")]]
    {
        let mut screen = Screen::trainmon(arguments, &Conditions::default());
        for page in Page::ALL {
            let bindings = TABLE.iter().filter(|b| !matches!(b.action, Action::Quit | Action::Suspend));
            for bindings in bindings.collect::<Vec<_>>().chunks(5) {
                for name in bindings.iter().flat_map(|binding| binding.keys.split(' ')) {
                    // No to a question, then out of what is open: a menu may have opened a second one.
                    screen.send(&format!("{}{}n{ESC}{ESC}", key(Action::Go(page)), typed(name)));
                }
                let keys: Vec<_> = bindings.iter().map(|binding| binding.keys).collect();
                screen.answers(&format!("{keys:?} on {}", page.name()));
            }
            screen.resize(120, 60);
            screen.send(&format!("{}{}", key(Action::Go(Page::Help)), key(Action::Top)));
            screen.wait("help", |seen| seen.contents().contains(to_help));
            screen.send(&key(Action::Go(Page::Help)));
            screen.resize(80, 24);
        }
        screen.quit().assert_clean();
    }
}

#[test]
fn what_is_not_confirmed_is_not_done() {
    let mut target = Target::sleeping();
    let mut screen = Screen::attached(&target, &[], &Conditions::default());
    let (go, kill) = (key(Action::Go(Page::Processes)), key(Action::Kill));
    // The first choice of the menu, if there is one; then no, then nothing that means yes.
    for no in ["n", "\r", " ", "x", ESC] {
        screen.send(&format!("{go}{kill}\r{no}{ESC}{ESC}{ESC}"));
        screen.answers(&kill);
    }
    assert!(target.lives());
    screen.quit().assert_clean();
}

/// Files in the program's working directory with this ending.
fn files(screen: &Screen, ending: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(screen.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|e| e == ending)).collect()
}

#[test]
fn saving_writes_a_new_file_and_never_overwrites_one() {
    let target = Target::sleeping();
    let mut screen = Screen::attached(&target, &[], &Conditions::default());
    let export = key(Action::Export);
    for (choice, ending, begins) in [("j", "json", "{"), ("m", "md", "#")] {
        for _ in 0..50 {
            // There may be no verdict yet.
            screen.send(&format!("{export}{choice}"));
            screen.answers(choice);
            if !files(&screen, ending).is_empty() {
                break;
            }
            pause(100);
        }
        let written = files(&screen, ending);
        let text = std::fs::read_to_string(&written[0]).unwrap();
        assert!(text.contains(begins) && text.len() > 100, "{text}");
        let mode = std::fs::metadata(&written[0]).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "for its owner alone");
    }

    // Every name that it could choose in the next minute is taken, one of them by a link that leads nowhere.
    for path in files(&screen, "md") {
        std::fs::remove_file(path).unwrap();
    }
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let elsewhere = screen.folder.path().join("elsewhere");
    let name = |second: i64| {
        let stamp = (&now + jiff::Span::new().seconds(second)).strftime("%Y%m%d-%H%M%S").to_string();
        screen.folder.path().join(format!("trainmon-{}-{stamp}.md", target.pid()))
    };
    for second in 0..60 {
        if second % 2 == 0 {
            std::fs::write(name(second), "mine").unwrap();
        } else {
            std::os::unix::fs::symlink(&elsewhere, name(second)).unwrap();
        }
    }
    let taken: Vec<_> = (0..60).map(name).collect();
    for _ in 0..3 {
        screen.send(&format!("{export}m"));
        screen.answers("saving over a file");
        pause(400);
    }
    for path in taken.iter().step_by(2) {
        assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
    }
    assert!(!elsewhere.exists());
    screen.quit().assert_clean();
}
