//! Processes that tests need beside themselves. The first word says which one:
//!
//! - `listen FOLDER` writes each signal that it gets into the file `heard`, and ends with 9 once there is a file `done`
//! - `echo` answers one connection with what it gets, and prints its port first
//! - `draw MODE` draws the screen into its terminal, and leaves it in the way that the mode says

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "for tests")]

#[path = "app.rs"]
mod app;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use rustix::process::getppid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use trainmon::tui::terminal::{Terminal, TerminalOptions};
use trainmon::tui::theme::Depth;
use trainmon::tui::{self, Theme};

use app::{COLOR, Job, running};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", folder] => listen(Path::new(folder)),
        ["echo"] => echo(),
        ["draw", mode] => draw(mode),
        _ => panic!("no helper is called {words:?}"),
    }
}

fn listen(folder: &Path) {
    let mut signals = SignalsInfo::<WithOrigin>::new([SIGTERM, SIGHUP, SIGINT, SIGUSR1, SIGUSR2]).unwrap();
    let mut heard = fs::File::options().create(true).append(true).open(folder.join("heard")).unwrap();
    fs::write(folder.join("ready"), "").unwrap();
    // It does not outlive a test that fails.
    let parent = getppid();
    while !folder.join("done").exists() && getppid() == parent {
        // With their origin they are queued, so that each is counted.
        for origin in signals.pending() {
            writeln!(heard, "{}", signal_hook::low_level::signal_name(origin.signal).unwrap()).unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    std::process::exit(9);
}

fn echo() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let (mut stream, _) = listener.accept().unwrap();
    let mut question = [0; 4];
    while stream.read_exact(&mut question).is_ok() && stream.write_all(&question).is_ok() {}
}

/// The theme that the mode names.
fn theme(mode: &str) -> Theme {
    let depth = match mode {
        "colors-16" => Depth::Ansi16,
        "colors-none" => Depth::None,
        _ => Depth::Indexed256,
    };
    Theme { depth, ..*COLOR }
}

fn draw(mode: &str) {
    let options = TerminalOptions { mouse: mode.starts_with("mouse"), screen: mode == "copy-in-screen" };
    let mut terminal = Terminal::enter(options).unwrap();
    let app = running(theme(mode), terminal.size(), Job::default());
    terminal.draw(|buf| drop(tui::draw(buf, &app))).unwrap();
    match mode {
        "same" => {
            for _ in 0..5 {
                terminal.draw(|buf| drop(tui::draw(buf, &app))).unwrap();
            }
        }
        "repaint" => {
            terminal.repaint();
            terminal.draw(|buf| drop(tui::draw(buf, &app))).unwrap();
        }
        "panic" => panic!("the screen fell over"),
        "panic-elsewhere" => {
            let _ = std::thread::spawn(|| panic!("a source fell over")).join();
            terminal.draw(|buf| drop(tui::draw(buf, &app))).unwrap();
        }
        "suspend" => {
            terminal.suspend().unwrap();
            terminal.draw(|buf| drop(tui::draw(buf, &app))).unwrap();
        }
        "copy" => terminal.copy("wörter").unwrap(),
        "copy-in-screen" => terminal.copy(&"wörter ".repeat(300)).unwrap(),
        "mouse-off" => {
            terminal.mouse(false).unwrap();
            terminal.suspend().unwrap();
            terminal.resumed().unwrap();
            terminal.draw(|buf| drop(tui::draw(buf, &app))).unwrap();
            terminal.mouse(true).unwrap();
        }
        _ => {}
    }
    drop(terminal);
    println!("the terminal is given back");
}
