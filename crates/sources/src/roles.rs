//! The role of each process in the job: a pure judgment over facts about each process in the tree.
//!
//! torch's workers are known by their name (`pt_data_worker`, set with prctl by every start method). Other loaders'
//! workers are known by kinship: they are forks or re-executions of the training process's own program, or its
//! `multiprocessing` children. A training process is one that such workers serve, that holds a GPU, that has threads of
//! collectives or autograd (a rank, however it was started), or that has a machine-learning library mapped. If no
//! process fits, it is the target itself. A process that only waits for such processes to end does not train; they do.
//! Nor does one that asks a child for each step, if stacks show the child in a backward pass: the process that runs
//! backward trains, not the one that forked it.

use std::collections::BTreeMap;
use std::iter::successors;

use trainmon_sample::ProcessRole;
use trainmon_sample::process::TORCH_WORKER;

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
    /// A GPU file is open, or NVML lists the process.
    pub device: bool,
    /// It has threads of collectives or of autograd.
    pub rank: bool,
    /// Its first thread computes.
    pub works: bool,
    /// Its first thread has hardly woken lately.
    pub rests: bool,
    /// It waits for a child to end.
    pub joins: bool,
    /// Its stacks have shown a backward pass.
    pub trains: bool,
}

/// How many ancestors are followed: a reused PID could close a cycle.
const MOST_GENERATIONS: usize = 64;

/// Programs that start others and do not train themselves.
const LAUNCHERS: &str = "\
    sh bash dash zsh fish sudo su env time nohup nice taskset numactl setpriv timeout torchrun accelerate \
    deepspeed srun mpirun screen tmux uv poetry conda make docker-init tini systemd";

/// Interpreters: two processes of one interpreter are kin only if their command lines agree too.
const INTERPRETERS: &[&str] = &["python", "pypy", "node", "java", "ruby", "perl", "bash", "sh"];

/// The roles of all processes, by PID.
pub(crate) fn assign(target: u32, facts: &[Facts<'_>]) -> BTreeMap<u32, ProcessRole> {
    let by_pid: BTreeMap<u32, &Facts<'_>> = facts.iter().map(|fact| (fact.pid, fact)).collect();
    let ranks = ranks(target, facts, &by_pid);
    facts
        .iter()
        .map(|fact| {
            let role = if ranks.contains(&fact.pid) {
                ProcessRole::Rank
            } else if is_torch_worker(fact) {
                ProcessRole::Worker
            } else if is_helper(fact, &by_pid) {
                ProcessRole::Helper
            } else if let Some(rank) = ancestors(fact, &by_pid).find(|above| ranks.contains(&above.pid)) {
                // A process that trains is not a worker.
                if is_kin(fact, rank) && !fact.trains { ProcessRole::Worker } else { ProcessRole::Other }
            } else if ranks.iter().any(|pid| is_below(*pid, fact.pid, &by_pid)) {
                ProcessRole::Launcher
            } else {
                ProcessRole::Other
            };
            (fact.pid, role)
        })
        .collect()
}

/// The training process that a worker serves: its nearest ancestor with that role. `of` gives a process's parent and
/// role.
pub(crate) fn rank_of(worker: u32, of: impl Fn(u32) -> Option<(u32, ProcessRole)>) -> Option<u32> {
    let above = |pid: &u32| of(*pid).map(|(parent, _)| parent);
    let is_rank = |pid: &u32| of(*pid).is_some_and(|(_, role)| role == ProcessRole::Rank);
    successors(above(&worker), above).take(MOST_GENERATIONS).find(is_rank)
}

fn ranks(target: u32, facts: &[Facts<'_>], by_pid: &BTreeMap<u32, &Facts<'_>>) -> Vec<u32> {
    // Served by torch's workers. Forkserver workers are grandchildren, so the helper in between is skipped.
    let mut found: Vec<u32> = facts
        .iter()
        .filter(|fact| is_torch_worker(fact))
        .filter_map(|fact| ancestors(fact, by_pid).find(|above| !is_torch_worker(above) && !is_helper(above, by_pid)))
        .map(|fact| fact.pid)
        .collect();
    // Holds a GPU, and is not merely a fork of a process that does: forks inherit the open file. A monitor opens it
    // too, to read counters (NVML), so processes with a library come first.
    let holders = facts.iter().filter(|fact| fact.device && !is_torch_worker(fact) && !is_helper(fact, by_pid));
    let trains = holders.clone().any(|fact| fact.library);
    for fact in holders.filter(|fact| fact.library || !trains) {
        if !ancestors(fact, by_pid).any(|above| above.device && is_kin(fact, above)) {
            found.push(fact.pid);
        }
    }
    // Ranks take part in collectives, whichever process started them, even if they run its program
    // (torch.multiprocessing.spawn).
    let ranks = facts.iter().filter(|fact| fact.rank && !is_torch_worker(fact) && !is_helper(fact, by_pid));
    let ranks: Vec<u32> = ranks.map(|fact| fact.pid).collect();
    found.extend(&ranks);
    // The process that started them trains only if it computes itself.
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

/// The topmost process with a library. If it runs other programs that have one too, it is a launcher (torchrun) and
/// they are the ranks.
fn topmost_with_library(facts: &[Facts<'_>], by_pid: &BTreeMap<u32, &Facts<'_>>) -> Vec<u32> {
    let library: Vec<&Facts<'_>> = facts.iter().filter(|fact| may_train(fact, by_pid)).collect();
    let is_topmost = |fact: &&&Facts<'_>| {
        let runs_others = library
            .iter()
            .any(|other| is_below(other.pid, fact.pid, by_pid) && !is_kin(other, fact) && is_python_program(other));
        let below_kin = ancestors(fact, by_pid).any(|above| above.library && is_kin(fact, above));
        // A process that computes itself starts others to help.
        let launches = runs_others && !fact.works;
        let helps = ancestors(fact, by_pid).any(|above| above.library && above.works);
        !launches && !below_kin && !helps
    };
    let topmost: Vec<&Facts<'_>> = library.iter().filter(is_topmost).copied().collect();
    // Among actors that run different programs, the ones that train count; the others play, or produce data.
    let trains: Vec<_> = library.iter().filter(|fact| fact.trains).map(|fact| fact.command).collect();
    let is_same = |fact: &&Facts<'_>| trains.contains(&fact.command);
    let any_same = topmost.iter().any(is_same);
    topmost.into_iter().filter(|fact| !any_same || is_same(fact)).map(|fact| fact.pid).collect()
}

/// A process that only waits for children that may train started them to train (several train one model in shared
/// memory). If it waits in calls other than wait4, a child's stacks must show it. A process that asks a child for each
/// step, and does no work of its own, has left the training to the child.
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

/// Whether it has a library and is neither a torch worker nor a helper.
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

/// Whether it is the resource tracker or the forkserver itself. The forkserver's children inherit its command line, so
/// a process whose parent has the same one is not a forkserver.
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
