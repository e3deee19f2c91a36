use super::*;

const PYTHON: Option<&str> = Some("/usr/bin/python3.11");

fn fact<'a>(pid: u32, parent: u32, comm: &'a str, command: &'a str) -> Facts<'a> {
    Facts { pid, parent, comm, command, executable: PYTHON, ..Facts::default() }
}

fn words(roles: &BTreeMap<u32, ProcessRole>) -> Vec<&'static str> {
    roles.values().map(|role| role.word()).collect()
}

#[test]
fn forked_torch_workers() {
    let facts = [
        Facts { library: true, ..fact(10, 1, "python", "python train.py") },
        fact(11, 10, "pt_data_worker", "python train.py"),
        fact(12, 10, "pt_data_worker", "python train.py"),
    ];
    assert_eq!(words(&assign(10, &facts)), ["trainer", "worker", "worker"]);
}

#[test]
fn who_only_waits_for_the_end_of_its_children_trains_nothing() {
    let spawned = "python -c from multiprocessing.spawn import spawn_main; spawn_main(8)";
    let library = |fact| Facts { library: true, ..fact };
    let mut facts = [
        library(fact(10, 1, "python", "python hogwild.py")),
        fact(11, 10, "python", "python -c from multiprocessing.resource_tracker import main;main(5)"),
        library(fact(12, 10, "python", spawned)),
        library(fact(13, 10, "python", "python hogwild.py")),
        library(fact(14, 13, "python", "python hogwild.py")),
    ];
    assert_eq!(words(&assign(10, &facts)), ["trainer", "helper", "worker", "worker", "worker"]);
    facts[0].rests = true;
    assert_eq!(words(&assign(10, &facts)), ["trainer", "helper", "worker", "worker", "worker"], "or for batches");
    facts[3].trains = true;
    assert_eq!(words(&assign(10, &facts)), ["launcher", "helper", "trainer", "trainer", "worker"]);
    (facts[0].joins, facts[3].trains) = (true, false);
    assert_eq!(words(&assign(10, &facts)), ["launcher", "helper", "trainer", "trainer", "worker"]);
    // A command that each sample starts anew has no library.
    facts[2].library = false;
    facts[3].library = false;
    assert_eq!(words(&assign(10, &facts[..4])), ["trainer", "helper", "worker", "worker"]);
}

#[test]
fn whoever_runs_backward_trains_and_not_the_process_that_asks_it_for_steps() {
    let library = |fact| Facts { library: true, ..fact };
    let driver = library(fact(10, 1, "python", "python run.py"));
    let learner = Facts { trains: true, ..library(fact(11, 10, "python", "python run.py")) };
    let producer = library(fact(12, 10, "python", "python run.py"));
    let of = |driver| words(&assign(10, &[driver, learner, producer]));
    assert_eq!(of(driver), ["launcher", "trainer", "other"]);
    // It does a part of the work, or trains as well: the loop is still its own, and what it waits for makes no batches.
    assert_eq!(of(Facts { works: true, ..driver }), ["trainer", "other", "worker"]);
    assert_eq!(of(Facts { trains: true, ..driver }), ["trainer", "other", "worker"]);
}

#[test]
fn of_actors_that_a_daemon_started_those_that_run_backward_train() {
    let library = |fact| Facts { library: true, ..fact };
    let mut facts = [
        library(fact(10, 1, "python", "python tune.py")),
        Facts { executable: Some("/x/raylet"), ..fact(11, 10, "raylet", "/x/raylet --port 1") },
        library(fact(12, 11, "ray::Learner", "ray::Learner.update")),
        library(fact(13, 11, "ray::Player", "ray::Player.sample")),
        fact(14, 11, "ray::IDLE", "ray::IDLE"),
    ];
    assert_eq!(words(&assign(10, &facts)), ["launcher", "launcher", "trainer", "trainer", "other"]);
    facts[2].trains = true;
    assert_eq!(words(&assign(10, &facts)), ["launcher", "launcher", "trainer", "other", "other"]);
    // A driver that works itself starts others to help, and waits for them.
    facts[0].works = true;
    assert_eq!(words(&assign(10, &facts)), ["trainer", "other", "other", "other", "other"]);
}

#[test]
fn forkserver_workers_are_grandchildren() {
    let server = "python -c from multiprocessing.forkserver import main; main(8)";
    let facts = [
        Facts { library: true, ..fact(10, 1, "python", "python train.py") },
        fact(11, 10, "python", "python -c from multiprocessing.resource_tracker import main;main(5)"),
        fact(12, 10, "python", server),
        fact(13, 12, "pt_data_worker", server),
    ];
    let roles = assign(10, &facts);
    assert_eq!(words(&roles), ["trainer", "helper", "helper", "worker"]);
    let of = |pid| facts.iter().find(|fact| fact.pid == pid).map(|fact| (fact.parent, roles[&pid]));
    assert_eq!(rank_of(13, of), Some(10));
}

#[test]
fn torchrun_ranks_are_ranks_and_torchrun_is_not() {
    let facts = [
        Facts { library: true, ..fact(10, 1, "torchrun", "python torchrun --nproc-per-node 2 train.py") },
        Facts { library: true, ..fact(11, 10, "python", "python -u train.py") },
        Facts { library: true, ..fact(12, 10, "python", "python -u train.py") },
        fact(13, 11, "pt_data_worker", "python -u train.py"),
    ];
    let roles = assign(10, &facts);
    assert_eq!(roles[&11], ProcessRole::Rank);
    assert_eq!(roles[&13], ProcessRole::Worker);
    assert_eq!(roles[&10], ProcessRole::Launcher);
    let without_workers = assign(10, &facts[..3]);
    assert_eq!(words(&without_workers), ["launcher", "trainer", "trainer"]);
}

#[test]
fn spawned_ranks_are_ranks_and_whoever_only_waits_for_them_is_not() {
    let spawned = "python -c from multiprocessing.spawn import spawn_main; spawn_main(7) --multiprocessing-fork";
    let rank = |pid| Facts { library: true, rank: true, ..fact(pid, 10, "python", spawned) };
    let mut facts = [
        Facts { library: true, ..fact(10, 1, "python", "python train.py") },
        fact(11, 10, "python", "python -c from multiprocessing.resource_tracker import main;main(5)"),
        rank(12),
        rank(13),
        // Of a pool of the first rank's own.
        Facts { library: true, ..fact(14, 12, "python", spawned) },
        fact(15, 13, "pt_data_worker", spawned),
    ];
    let roles = ["launcher", "helper", "trainer", "trainer", "worker", "worker"];
    assert_eq!(words(&assign(10, &facts)), roles);
    facts[0].works = true;
    assert_eq!(words(&assign(10, &facts))[0], "trainer");
    // Without collectives they work for the one that started them.
    facts.iter_mut().for_each(|fact| fact.rank = false);
    assert_eq!(words(&assign(10, &facts[..4])), ["trainer", "helper", "worker", "worker"]);
}

#[test]
fn helpers_with_a_library_or_an_open_device_are_no_ranks() {
    let rank = Facts { library: true, works: true, ..fact(10, 1, "python", "python train.py") };
    let tokenizer = Facts { library: true, works: true, ..fact(11, 10, "python", "python tokenize.py") };
    assert_eq!(words(&assign(10, &[rank, tokenizer])), ["trainer", "other"]);
    let monitor =
        Facts { device: true, executable: Some("/x/wandb-core"), ..fact(12, 10, "wandb-core", "wandb-core") };
    let facts = [Facts { device: true, ..rank }, monitor];
    assert_eq!(words(&assign(10, &facts)), ["trainer", "other"]);
    assert_eq!(words(&assign(10, &[fact(10, 1, "own", "./own"), monitor])), ["launcher", "trainer"]);
}

#[test]
fn a_shell_is_followed_to_what_it_runs() {
    let facts = [
        Facts { executable: Some("/bin/bash"), ..fact(10, 1, "bash", "bash run.sh") },
        fact(11, 10, "python", "python train.py"),
    ];
    assert_eq!(words(&assign(10, &facts)), ["launcher", "trainer"]);
}

#[test]
fn forks_that_inherit_the_device_file_are_workers() {
    let facts = [
        Facts { device: true, ..fact(10, 1, "python", "python train.py") },
        Facts { device: true, ..fact(11, 10, "python", "python train.py") },
        fact(12, 10, "wandb-core", "/x/wandb-core"),
    ];
    assert_eq!(words(&assign(10, &facts)), ["trainer", "worker", "other"]);
}

#[test]
fn a_ring_of_parents_ends() {
    let facts = [fact(10, 11, "a", "a"), fact(11, 10, "b", "b")];
    assert_eq!(assign(10, &facts).len(), 2);
}
