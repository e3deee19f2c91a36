//! Lines of source from a made-up `/proc`.

use std::os::unix::fs::symlink;

use rustix::fs::inotify;

use super::*;
use crate::sample::{ProcessId, StackCount, ThreadStacks};

/// A `/proc` with one process whose root and folder are inside it.
fn tree() -> (tempfile::TempDir, std::path::PathBuf) {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path().join("7/root");
    fs::create_dir_all(root.join("job")).unwrap();
    symlink("/job", tree.path().join("7/cwd")).unwrap();
    (tree, root)
}

/// One thread with one stack for each list of (file, line), leaf first.
fn window(stacks: &[&[(&str, u32)]]) -> StackWindow {
    let mut window = StackWindow { process: ProcessId { pid: 7, start_ticks: 1 }, ..StackWindow::default() };
    let mut thread = ThreadStacks::default();
    for stack in stacks {
        let mut frames = Vec::new();
        for &(file, line) in *stack {
            frames.push(u32::try_from(window.frames.len()).unwrap());
            window.frames.push(StackFrame { file: file.into(), line, ..StackFrame::default() });
        }
        thread.stacks.push(StackCount { frames, samples: 1 });
    }
    window.threads.push(thread);
    window
}

fn texts(tree: &Path, stacks: &[&[(&str, u32)]]) -> Vec<Option<String>> {
    let mut window = window(stacks);
    fill(&mut window, tree, &JobRights::find(Path::new("/proc/self")).unwrap());
    window.frames.iter().map(|frame| frame.text.as_deref().map(str::to_owned)).collect()
}

#[test]
fn the_users_innermost_frame_gets_its_line() {
    let (tree, root) = tree();
    fs::write(root.join("job/train.py"), "a = 1\n\n    image = Image.open(path)  # slow\r\nlast").unwrap();
    let library = "/usr/lib/python3.11/site-packages/PIL/Image.py";
    let found = texts(
        tree.path(),
        &[
            &[(library, 5), ("/job/train.py", 3), ("/job/train.py", 1)],
            &[("train.py", 4)],
            &[("/job/train.py", 2)],
            &[("/job/train.py", 99)],
            &[("/job/train.py", 0)],
            &[("/job/none.py", 1)],
        ],
    );
    let found: Vec<_> = found.iter().map(Option::as_deref).collect();
    assert_eq!(found, [None, Some("image = Image.open(path)  # slow"), None, Some("last"), None, None, None, None]);
}

#[test]
fn only_the_most_frequent_stacks_are_looked_at() {
    let (tree, root) = tree();
    fs::write(root.join("job/a.py"), "x\n".repeat(20)).unwrap();
    let stacks: Vec<[(&str, u32); 1]> = (1..=12).map(|line| [("/job/a.py", line)]).collect();
    let stacks: Vec<&[(&str, u32)]> = stacks.iter().map(<[_; 1]>::as_slice).collect();
    let found = texts(tree.path(), &stacks);
    assert_eq!(found.iter().flatten().count(), STACKS);
    assert!(found[..STACKS].iter().all(Option::is_some));
}

#[test]
fn long_lines_are_cut_between_characters_and_odd_bytes_replaced() {
    let (tree, root) = tree();
    let mut bytes = format!("x{}\n", "ä".repeat(5000)).into_bytes();
    bytes.extend(b"caf\xe9\n");
    fs::write(root.join("job/a.py"), bytes).unwrap();
    let found = texts(tree.path(), &[&[("/job/a.py", 1)], &[("/job/a.py", 2)]]);
    assert_eq!(found[0].as_ref().unwrap().len(), 199);
    assert_eq!(found[1].as_deref(), Some("caf\u{FFFD}"));
}

#[test]
fn links_are_followed_inside_the_targets_root_only() {
    let (tree, root) = tree();
    fs::write(tree.path().join("secret"), "secret\n").unwrap();
    fs::write(root.join("job/real.py"), "real\n").unwrap();
    symlink("/job/real.py", root.join("job/absolute.py")).unwrap();
    symlink(tree.path().join("secret"), root.join("job/out.py")).unwrap();
    let stacks: &[&[(&str, u32)]] =
        &[&[("/job/absolute.py", 1)], &[("/job/out.py", 1)], &[("/../../secret", 1)], &[("/job/../../../secret", 1)]];
    let found = texts(tree.path(), stacks);
    assert_eq!(found, [Some("real".to_owned()), None, None, None]);
}

#[test]
fn only_regular_files_of_a_likely_size_are_read() {
    let (tree, root) = tree();
    fs::create_dir(root.join("job/folder.py")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("job/pipe.py"), 0o666.into()).unwrap();
    File::create(root.join("job/huge.py")).unwrap().set_len(LARGEST_SOURCE + 1).unwrap();
    // Opening a pipe or a device can have an effect by itself; `O_PATH` opens nothing (inotify(7) tells of neither).
    let opened = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&opened, root.join("job/pipe.py"), inotify::WatchFlags::OPEN).unwrap();
    let stacks: &[&[(&str, u32)]] =
        &[&[("/job/folder.py", 1)], &[("/job/pipe.py", 1)], &[("/job/huge.py", 1)], &[("/job/\0.py", 1)]];
    let found = texts(tree.path(), stacks);
    assert_eq!(found, [None, None, None, None]);
    assert_eq!(rustix::io::read(&opened, &mut [0_u8; 256]), Err(rustix::io::Errno::AGAIN), "the pipe was opened");
}

#[test]
fn a_changed_file_is_read_again_and_few_are_read() {
    let (tree, root) = tree();
    let one: &[&[(&str, u32)]] = &[&[("/job/a.py", 1)]];
    for text in ["before", "afterwards"] {
        fs::write(root.join("job/a.py"), format!("{text}\n")).unwrap();
        assert_eq!(texts(tree.path(), one), [Some(text.to_owned())]);
    }
    let names: Vec<String> = (0..2 * FILES_KEPT).map(|number| format!("/job/{number:03}.py")).collect();
    let mut window = StackWindow { process: ProcessId { pid: 7, start_ticks: 1 }, ..StackWindow::default() };
    for (at, name) in (0..).zip(&names) {
        fs::write(root.join(name.trim_start_matches('/')), "x\n").unwrap();
        window.frames.push(StackFrame { file: name.as_str().into(), line: 1, ..StackFrame::default() });
        let stacks = vec![StackCount { frames: vec![at], samples: 1 }];
        window.threads.push(ThreadStacks { stacks, ..ThreadStacks::default() });
    }
    fill(&mut window, tree.path(), &JobRights::find(Path::new("/proc/self")).unwrap());
    let with_text: Vec<bool> = window.frames.iter().map(|frame| frame.text.is_some()).collect();
    assert_eq!(with_text, [[true; FILES_KEPT], [false; FILES_KEPT]].concat());
}
