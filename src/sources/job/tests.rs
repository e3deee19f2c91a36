use std::fs;

use super::*;

/// A process in a tree of files like `/proc`: what it is a child of, its session, which is its group as well, and its start.
fn write_process(proc_root: &Path, pid: u32, parent: u32, session: u32, start_ticks: u64) {
    let folder = proc_root.join(pid.to_string());
    fs::create_dir_all(folder.join(format!("task/{pid}"))).unwrap();
    let stat = format!(
        "{pid} (python) S {parent} {session} {session} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start_ticks} 0 0{}\n",
        " 0".repeat(28)
    );
    fs::write(folder.join("stat"), stat).unwrap();
    fs::write(folder.join(format!("task/{pid}/children")), "").unwrap();
}

fn pids(sample: &JobSample) -> Vec<u32> {
    sample.processes.iter().map(|process| process.id.pid).collect()
}

#[test]
fn an_orphan_is_found_also_under_the_number_of_a_process_that_was_none_of_the_job() {
    let tree = tempfile::tempdir().unwrap();
    write_process(tree.path(), 10, 1, 10, 100);
    write_process(tree.path(), 20, 1, 20, 200); // of another session
    write_process(tree.path(), 21, 1, 10, 50); // older than the job
    let mut reader = JobReader::attach(tree.path(), 10, true).unwrap();
    let mut read = |times: u64| (0..times).map(|second| reader.read(second)).last().map(|sample| pids(&sample));
    assert_eq!(read(SCAN_EVERY), Some(vec![10]));
    write_process(tree.path(), 30, 1, 10, 300);
    assert_eq!(read(SCAN_EVERY), Some(vec![10, 30]), "whoever is new is read at the next scan");
    write_process(tree.path(), 20, 1, 10, 400);
    assert_eq!(read(SCAN_EVERY * STRANGERS_EVERY), Some(vec![10, 20, 30]));
}

#[test]
fn without_lists_of_children_a_child_is_found_at_once() {
    let tree = tempfile::tempdir().unwrap();
    write_process(tree.path(), 10, 1, 10, 100);
    write_process(tree.path(), 20, 1, 20, 200);
    fs::remove_file(tree.path().join("10/task/10/children")).unwrap();
    let mut reader = JobReader::attach(tree.path(), 10, true).unwrap();
    assert_eq!(pids(&reader.read(0)), [10]);
    // A number that was a stranger's a moment ago.
    write_process(tree.path(), 20, 10, 20, 300);
    assert_eq!(pids(&reader.read(1)), [10, 20]);
}
