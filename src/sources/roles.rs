//! Who does what in the job: a pure judgement over the facts of each process in the tree.
//!
//! torch's workers are known by their name (`pt_data_worker`, set with prctl by every start method). Other loaders'
//! workers are known by their kinship: forks or re-executions of the trainer's own program, or `multiprocessing`
//! children. A trainer is the process that such workers serve, or that holds a device, or that has threads of collectives or
//! autograd: a rank, however it was started; or that has a machine-learning library mapped. With none of these it is the target
//! itself. One that does nothing but to wait for the end of such processes is none: they train. Nor is one that asks a child
//! for each step, where the stacks have shown the child in a backward pass: whoever runs backward trains, whoever forked it.

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
const LAUNCHERS: &str = "\
    sh bash dash zsh fish sudo su env time nohup nice taskset numactl setpriv timeout torchrun accelerate \
    deepspeed srun mpirun screen tmux uv poetry conda make docker-init tini systemd";

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

/// The trainer that a worker serves: its nearest ancestor with that role. `of` gives the parent and the role of a process.
pub fn trainer_of(worker: u32, of: impl Fn(u32) -> Option<(u32, ProcessRole)>) -> Option<u32> {
    let above = |pid: &u32| of(*pid).map(|(parent, _)| parent);
    let is_trainer = |pid: &u32| of(*pid).is_some_and(|(_, role)| role == ProcessRole::Trainer);
    successors(above(&worker), above).take(MOST_GENERATIONS).find(is_trainer)
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
        found = topmost_with_library(facts, by_pid);
    }
    if found.is_empty() {
        found.push(end_of_chain(target, facts));
    }
    leave_to_children(&mut found, facts, by_pid);
    found.sort_unstable();
    found.dedup();
    found
}

/// The topmost process with a library; where such a process runs other programs that have one too, it is a launcher (torchrun)
/// and those are the ranks.
fn topmost_with_library(facts: &[Facts<'_>], by_pid: &BTreeMap<u32, &Facts<'_>>) -> Vec<u32> {
    let library: Vec<&Facts<'_>> = facts.iter().filter(|fact| may_train(fact, by_pid)).collect();
    let is_topmost = |fact: &&&Facts<'_>| {
        let runs_others = library
            .iter()
            .any(|other| is_below(other.pid, fact.pid, by_pid) && !is_kin(other, fact) && is_python_program(other));
        let below_kin = ancestors(fact, by_pid).any(|above| above.library && is_kin(fact, above));
        // Who computes itself starts others to help.
        let launches = runs_others && !fact.works;
        let helps = ancestors(fact, by_pid).any(|above| above.library && above.works);
        !launches && !below_kin && !helps
    };
    let topmost: Vec<&Facts<'_>> = library.iter().filter(is_topmost).copied().collect();
    // Of actors that run different programs those that train are the trainers; the others play, or make data.
    let trains: Vec<_> = library.iter().filter(|fact| fact.trains).map(|fact| fact.command).collect();
    let is_same = |fact: &&Facts<'_>| trains.contains(&fact.command);
    let any_same = topmost.iter().any(is_same);
    topmost.into_iter().filter(|fact| !any_same || is_same(fact)).map(|fact| fact.pid).collect()
}

/// Who only waits for the end of children that may train started them to train (a model in shared memory that several train). In
/// other calls than wait4 only the stacks of one of them tell. Who asks a child for each step, and does no work of its own, has
/// left the training to it.
fn leave_to_children(found: &mut Vec<u32>, facts: &[Facts<'_>], by_pid: &BTreeMap<u32, &Facts<'_>>) {
    for parent in facts.iter().filter(|fact| !fact.works && !fact.trains) {
        let is_child = |fact: &&Facts<'_>| {
            let nearest = ancestors(fact, by_pid).find(|above| above.library && !is_helper(above, by_pid));
            nearest.is_some_and(|above| above.pid == parent.pid) && is_kin(fact, parent)
        };
        let mut children: Vec<&Facts<'_>> =
            facts.iter().filter(|fact| may_train(fact, by_pid)).filter(is_child).collect();
        if !(parent.joins || parent.rests && children.iter().any(|child| child.trains)) {
            children.retain(|child| child.trains);
        }
        if !children.is_empty() && found.contains(&parent.pid) {
            found.retain(|pid| *pid != parent.pid);
            found.extend(children.iter().map(|child| child.pid));
        }
    }
}

/// It has a library, and is neither one of torch's workers nor a helper.
fn may_train(fact: &Facts<'_>, by_pid: &BTreeMap<u32, &Facts<'_>>) -> bool {
    fact.library && !is_torch_worker(fact) && !is_helper(fact, by_pid)
}

/// Follows launchers with one child down to the program that they run.
fn end_of_chain(target: u32, facts: &[Facts<'_>]) -> u32 {
    let mut at = target;
    for _ in 0..16 {
        let Some(fact) = facts.iter().find(|fact| fact.pid == at) else { break };
        let mut children = facts.iter().filter(|fact| fact.parent == at);
        // tmux names its server `tmux: server`.
        let name = fact.comm.strip_suffix(": server").unwrap_or(fact.comm);
        let launches = LAUNCHERS.split_ascii_whitespace().any(|known| known == name);
        match (launches, children.next(), children.next()) {
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
mod tests;
