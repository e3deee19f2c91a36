//! Who does what in the job: a pure judgement over the facts of each process in the tree.
//!
//! torch's workers are known by their name (`pt_data_worker`, set with prctl by every start method). Other loaders'
//! workers are known by their kinship: forks or re-executions of the trainer's own program, or `multiprocessing`
//! children. A trainer is the process that such workers serve, or that holds a device, or that has threads of collectives or
//! autograd: a rank, however it was started; or that has a machine-learning library mapped. With none of these it is the target
//! itself. One that does nothing but to wait for the end of such processes is none: they train.

use std::collections::BTreeMap;
use std::iter::successors;

use crate::sample::ProcessRole;
use crate::sample::process::TORCH_WORKER;

/// What is known of one process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'a> {
    /// PID.
    pub pid: u32,
    /// Parent PID.
    pub parent: u32,
    /// Name.
    pub comm: &'a str,
    /// Command line.
    pub command: &'a str,
    /// Executable path.
    pub executable: Option<&'a str>,
    /// A machine-learning library is mapped.
    pub library: bool,
    /// A GPU device file is open, or NVML lists the process.
    pub device: bool,
    /// It has threads of collectives or of autograd.
    pub rank: bool,
    /// Its main thread computes.
    pub works: bool,
    /// Its main thread has hardly woken of late.
    pub rests: bool,
    /// It rests until a child ends.
    pub joins: bool,
    /// Its stacks have shown a backward pass.
    pub trains: bool,
}

/// Ancestors that are looked at: a reused PID could close a ring.
const MOST_GENERATIONS: usize = 64;

/// Programs that start others and do not train themselves.
const LAUNCHERS: &[&str] = &[
    "sh",
    "bash",
    "dash",
    "zsh",
    "fish",
    "sudo",
    "su",
    "env",
    "time",
    "nohup",
    "nice",
    "taskset",
    "numactl",
    "setpriv",
    "timeout",
    "torchrun",
    "accelerate",
    "deepspeed",
    "srun",
    "mpirun",
    "screen",
    "tmux: server",
    "uv",
    "poetry",
    "conda",
    "make",
    "docker-init",
    "tini",
    "systemd",
];

/// Interpreters: two processes of one interpreter are kin only when their command lines agree too.
const INTERPRETERS: &[&str] = &["python", "pypy", "node", "java", "ruby", "perl", "bash", "sh"];

/// Roles of all processes, by PID.
pub fn assign(target: u32, facts: &[Facts<'_>]) -> BTreeMap<u32, ProcessRole> {
    let by_pid: BTreeMap<u32, &Facts<'_>> = facts.iter().map(|fact| (fact.pid, fact)).collect();
    let trainers = trainers(target, facts, &by_pid);
    facts
        .iter()
        .map(|fact| {
            let role = if trainers.contains(&fact.pid) {
                ProcessRole::Trainer
            } else if is_torch_worker(fact) {
                ProcessRole::Worker
            } else if is_helper(fact, &by_pid) {
                ProcessRole::Helper
            } else if let Some(trainer) = ancestors(fact, &by_pid).find(|above| trainers.contains(&above.pid)) {
                // Who trains makes no batches.
                if is_kin(fact, trainer) && !fact.trains { ProcessRole::Worker } else { ProcessRole::Other }
            } else if trainers.iter().any(|pid| is_below(*pid, fact.pid, &by_pid)) {
                ProcessRole::Launcher
            } else {
                ProcessRole::Other
            };
            (fact.pid, role)
        })
        .collect()
}

/// Parents and roles by PID.
pub struct Kin(BTreeMap<u32, (u32, ProcessRole)>);

impl Kin {
    /// Of these processes: (PID, (parent, role)).
    pub fn new(processes: impl Iterator<Item = (u32, (u32, ProcessRole))>) -> Self {
        Self(processes.collect())
    }

    /// The trainer that a worker serves: its nearest ancestor with that role.
    pub fn trainer_of(&self, pid: u32) -> Option<u32> {
        let above = |pid: &u32| self.0.get(pid).map(|(parent, _)| *parent);
        let is_trainer = |pid: &u32| self.0.get(pid).is_some_and(|(_, role)| *role == ProcessRole::Trainer);
        successors(above(&pid), above).take(MOST_GENERATIONS).find(is_trainer)
    }
}

fn trainers(target: u32, facts: &[Facts<'_>], by_pid: &BTreeMap<u32, &Facts<'_>>) -> Vec<u32> {
    // Served by torch's workers: forkserver workers are grandchildren, so the helper in between is skipped.
    let mut found: Vec<u32> = facts
        .iter()
        .filter(|fact| is_torch_worker(fact))
        .filter_map(|fact| ancestors(fact, by_pid).find(|above| !is_torch_worker(above) && !is_helper(above, by_pid)))
        .map(|fact| fact.pid)
        .collect();
    // Holds a device, and is not a mere fork of a process that does: forks inherit the open device file. A monitor opens it as
    // well to read its counters (NVML), so who has a library comes first.
    let holders = facts.iter().filter(|fact| fact.device && !is_torch_worker(fact) && !is_helper(fact, by_pid));
    let trains = holders.clone().any(|fact| fact.library);
    for fact in holders.filter(|fact| fact.library || !trains) {
        if !ancestors(fact, by_pid).any(|above| above.device && is_kin(fact, above)) {
            found.push(fact.pid);
        }
    }
    // Ranks take part in collectives, whoever started them and though they run its program (torch.multiprocessing.spawn).
    let ranks = facts.iter().filter(|fact| fact.rank && !is_torch_worker(fact) && !is_helper(fact, by_pid));
    let ranks: Vec<u32> = ranks.map(|fact| fact.pid).collect();
    found.extend(&ranks);
    // Whoever started them trains only if it computes itself.
    let starts_ranks = |fact: &Facts<'_>| ranks.iter().any(|rank| is_below(*rank, fact.pid, by_pid));
    let at_work = facts.iter().filter(|fact| fact.library && fact.works && !fact.rank && starts_ranks(fact));
    found.extend(at_work.map(|fact| fact.pid));
    if found.is_empty() {
        // The topmost process with a library; where such a process runs other programs that have one too, it is a
        // launcher (torchrun) and those are the ranks.
        let library: Vec<&Facts<'_>> =
            facts.iter().filter(|fact| fact.library && !is_torch_worker(fact) && !is_helper(fact, by_pid)).collect();
        for fact in &library {
            let runs_others = library.iter().any(|other| {
                is_below(other.pid, fact.pid, by_pid) && !is_kin(other, fact) && is_python_program(other)
            });
            let below_kin = ancestors(fact, by_pid).any(|above| above.library && is_kin(fact, above));
            // Who computes itself starts others to help.
            let launches = runs_others && !fact.works;
            let helps = ancestors(fact, by_pid).any(|above| above.library && above.works);
            if !launches && !below_kin && !helps {
                found.push(fact.pid);
            }
        }
    }
    if found.is_empty() {
        found.push(end_of_chain(target, facts));
    }
    // Who only waits for the end of such children started them to train (a model in shared memory that several train). In other
    // calls than wait4 only the stacks of one of them tell. Who asks a child for each step, and does no work of its own, has
    // left the training to it.
    for parent in facts.iter().filter(|fact| !fact.works && !fact.trains) {
        let is_child = |fact: &Facts<'_>| {
            let nearest = ancestors(fact, by_pid).find(|above| above.library && !is_helper(above, by_pid));
            nearest.is_some_and(|above| above.pid == parent.pid) && is_kin(fact, parent)
        };
        let may_train = |fact: &&Facts<'_>| fact.library && !is_torch_worker(fact) && !is_helper(fact, by_pid);
        let mut children: Vec<&Facts<'_>> = facts.iter().filter(may_train).filter(|fact| is_child(fact)).collect();
        if !parent.joins && !(parent.rests && children.iter().any(|child| child.trains)) {
            children.retain(|child| child.trains);
        }
        if !children.is_empty() && found.contains(&parent.pid) {
            found.retain(|pid| *pid != parent.pid);
            found.extend(children.iter().map(|child| child.pid));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Follows launchers with one child down to the program that they run.
fn end_of_chain(target: u32, facts: &[Facts<'_>]) -> u32 {
    let mut at = target;
    for _ in 0..16 {
        let Some(fact) = facts.iter().find(|fact| fact.pid == at) else { break };
        let mut children = facts.iter().filter(|fact| fact.parent == at);
        match (LAUNCHERS.contains(&fact.comm), children.next(), children.next()) {
            (true, Some(child), None) => at = child.pid,
            _ => break,
        }
    }
    at
}

fn is_torch_worker(fact: &Facts<'_>) -> bool {
    fact.comm.starts_with(TORCH_WORKER)
}

/// The resource tracker, and the forkserver itself (its children take over its command line, so a process whose
/// parent looks the same is no forkserver).
fn is_helper(fact: &Facts<'_>, by_pid: &BTreeMap<u32, &Facts<'_>>) -> bool {
    if is_torch_worker(fact) {
        return false;
    }
    if fact.command.contains("multiprocessing.resource_tracker") {
        return true;
    }
    fact.command.contains("multiprocessing.forkserver")
        && by_pid.get(&fact.parent).is_none_or(|parent| parent.command != fact.command)
}

/// Whether `fact` runs the same program as `ancestor`: a fork, a `multiprocessing` child, or a re-execution.
fn is_kin(fact: &Facts<'_>, ancestor: &Facts<'_>) -> bool {
    if fact.command == ancestor.command || fact.command.contains("multiprocessing.spawn") {
        return true;
    }
    if fact.command.contains("multiprocessing.forkserver") {
        return true;
    }
    let (Some(own), Some(other)) = (fact.executable, ancestor.executable) else { return false };
    let name = own.rsplit('/').next().unwrap_or_default();
    own == other && !INTERPRETERS.iter().any(|interpreter| name.starts_with(interpreter))
}

fn is_python_program(fact: &Facts<'_>) -> bool {
    fact.executable.is_none_or(|path| path.rsplit('/').next().unwrap_or_default().starts_with("py"))
}

fn ancestors<'a, 'b>(
    fact: &Facts<'a>,
    by_pid: &'b BTreeMap<u32, &'b Facts<'a>>,
) -> impl Iterator<Item = &'b Facts<'a>> {
    let parent = move |of: u32| by_pid.get(&of).copied();
    successors(parent(fact.parent), move |above| parent(above.parent)).take(MOST_GENERATIONS)
}

fn is_below(pid: u32, above: u32, by_pid: &BTreeMap<u32, &Facts<'_>>) -> bool {
    by_pid.get(&pid).is_some_and(|fact| ancestors(fact, by_pid).any(|ancestor| ancestor.pid == above))
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "tests")]
mod tests {
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
        let kin = Kin::new(facts.iter().map(|fact| (fact.pid, (fact.parent, roles[&fact.pid]))));
        assert_eq!(kin.trainer_of(13), Some(10));
    }

    #[test]
    fn torchrun_ranks_are_trainers_and_torchrun_is_not() {
        let facts = [
            Facts { library: true, ..fact(10, 1, "torchrun", "python torchrun --nproc-per-node 2 train.py") },
            Facts { library: true, ..fact(11, 10, "python", "python -u train.py") },
            Facts { library: true, ..fact(12, 10, "python", "python -u train.py") },
            fact(13, 11, "pt_data_worker", "python -u train.py"),
        ];
        let roles = assign(10, &facts);
        assert_eq!(roles[&11], ProcessRole::Trainer);
        assert_eq!(roles[&13], ProcessRole::Worker);
        assert_eq!(roles[&10], ProcessRole::Launcher);
        let without_workers = assign(10, &facts[..3]);
        assert_eq!(words(&without_workers), ["launcher", "trainer", "trainer"]);
    }

    #[test]
    fn spawned_ranks_are_trainers_and_whoever_only_waits_for_them_is_not() {
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
        let trainer = Facts { library: true, works: true, ..fact(10, 1, "python", "python train.py") };
        let tokenizer = Facts { library: true, works: true, ..fact(11, 10, "python", "python tokenize.py") };
        assert_eq!(words(&assign(10, &[trainer, tokenizer])), ["trainer", "other"]);
        let monitor =
            Facts { device: true, executable: Some("/x/wandb-core"), ..fact(12, 10, "wandb-core", "wandb-core") };
        let facts = [Facts { device: true, ..trainer }, monitor];
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
}
