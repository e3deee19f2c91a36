//! Facts about a process that are checked now and then: what may be read, which libraries it has mapped, and which rank
//! it is.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::environ::variable;
use crate::fields::{lines, text};
use crate::files::{READ_LIMIT, read_once};
use crate::namespaces;
use trainmon_base::text::sudo_command;
use trainmon_sample::process::NUMPY;
use trainmon_sample::{Access, JobAccess, RankPlace, RunIdentity};

/// Variables for the rank, the number of ranks, and the number on this machine: as set by torchrun (and, following it,
/// Lightning, Accelerate and DeepSpeed), Open MPI and Slurm. The first one found wins: torchrun may be started by the
/// others.
const RANK_VARIABLES: &[[&str; 3]] = &[
    ["RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"],
    ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"],
];
/// Variables with the name of a run, the first one set wins: trainmon's own, for whoever wants another name; Slurm's
/// name of the job; torchrun's run ID, which is the same on all machines (`--rdzv-id`).
const NAME_VARIABLES: [&str; 3] = ["TRAINMON_JOB", "SLURM_JOB_NAME", "TORCHELASTIC_RUN_ID"];
/// torchrun's run ID if none was given (torch/distributed/run.py).
const NO_NAME: &[u8] = b"none";
/// Longest name or number of a run kept, bytes.
const LONGEST_NAME: usize = 128;
/// More ranks than any run has.
const MOST_WORLD: u32 = 1 << 20;
/// Libraries that mark a machine-learning process when mapped.
const LIBRARIES: &[&str] = &[
    "libtorch_cpu",
    "libtorch",
    "libtensorflow",
    "xla_extension",
    "libjax",
    "libmegengine",
    "libpaddle",
    "libmxnet",
    "libmindspore",
    "libxgboost",
    "lib_lightgbm",
    "_catboost",
    "libcudart",
    "libcuda.so",
    "libamdhip64",
    NUMPY,
];

/// The command that reads what we may not read of this process; `None` for root, which sudo gives nothing.
pub(super) fn with_more_rights(pid: u32) -> Option<Arc<str>> {
    (!rustix::process::geteuid().is_root()).then(|| sudo_command(&format!("--pid {pid}")).into())
}

/// What may be read of the process in `folder`.
pub(super) fn access(folder: &Path, no_ptrace: bool) -> JobAccess {
    let access = |answer: io::Result<()>| match answer {
        Ok(()) => Access::Ok,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Access::Denied,
        Err(_) => Access::Absent,
    };
    let of = |name: &str| access(read_once(folder.join(name), READ_LIMIT).map(drop).map_err(io::Error::from));
    let fd = access(fs::read_dir(folder.join("fd")).map(drop));
    JobAccess {
        syscall: if no_ptrace { Access::Denied } else { of("syscall") },
        // `wchan` can always be opened, and reads `0` where it is not allowed. The rule is that of `fd`
        // (PTRACE_MODE_READ_FSCREDS, fs/proc/base.c).
        wchan: if folder.join("wchan").exists() { fd } else { Access::Absent },
        io: of("io"),
        fd,
        no_ptrace,
    }
}

pub(super) fn visible_devices(folder: &Path) -> Option<Arc<str>> {
    visible_in(&read_once(folder.join("environ"), READ_LIMIT).ok()?)
}

/// The GPUs that an environment leaves visible. ROCm's runtime goes by ROCR_VISIBLE_DEVICES, and HIP counts those that it leaves in
/// HIP_VISIBLE_DEVICES or, like CUDA, in CUDA_VISIBLE_DEVICES (ROCm documentation, "GPU isolation techniques").
fn visible_in(environ: &[u8]) -> Option<Arc<str>> {
    let value = |name: &str| variable(environ, name).map(|value| text(value.get(..256).unwrap_or(value)));
    let (hip, cuda) = (value("HIP_VISIBLE_DEVICES"), value("CUDA_VISIBLE_DEVICES"));
    let Some(outer) = value("ROCR_VISIBLE_DEVICES") else { return hip.or(cuda) };
    // Slurm sets both to the same GPUs, whoever made them.
    let inner = hip.or_else(|| cuda.filter(|cuda| *cuda != outer));
    let Some(inner) = inner else { return Some(outer) };
    let left: Vec<&str> = outer.split(',').map(str::trim).collect();
    let chosen = inner.split(',').map_while(|entry| left.get(entry.trim().parse::<usize>().ok()?).copied());
    Some(chosen.collect::<Vec<_>>().join(",").into())
}

/// The rank of the process in `folder`. Only its initial environment can be read, so ranks that number themselves later
/// (torch.multiprocessing) stay unknown.
pub(super) fn rank_place(folder: &Path) -> Option<RankPlace> {
    place_in(&read_once(folder.join("environ"), READ_LIMIT).ok()?)
}

fn place_in(environ: &[u8]) -> Option<RankPlace> {
    let number =
        |name: &str| -> Option<u32> { std::str::from_utf8(variable(environ, name)?).ok()?.trim().parse().ok() };
    let place = |[rank, world, local]: &[&str; 3]| {
        let place = RankPlace { rank: number(rank)?, world: number(world)?, local_world: number(local) };
        let is_one = place.world > 1 && place.world <= MOST_WORLD && place.rank < place.world;
        is_one.then(|| RankPlace { local_world: place.local_world.filter(|local| *local <= place.world), ..place })
    };
    RANK_VARIABLES.iter().find_map(place)
}

/// What the environment of the process in `folder` says of its run.
pub(super) fn run_identity(folder: &Path) -> RunIdentity {
    read_once(folder.join("environ"), READ_LIMIT).map(|environ| identity_in(&environ)).unwrap_or_default()
}

fn identity_in(environ: &[u8]) -> RunIdentity {
    let value = |name: &str| variable(environ, name).filter(|value| !value.is_empty());
    let short = |value: &[u8]| text(value.get(..LONGEST_NAME).unwrap_or(value));
    let name = NAME_VARIABLES.iter().find_map(|name| value(name).filter(|value| *value != NO_NAME));
    // Set by Slurm 22.05 and later (sbatch(1), output environment variables).
    let ends = value("SLURM_JOB_END_TIME").and_then(|end| std::str::from_utf8(end).ok()?.trim().parse().ok());
    RunIdentity {
        name: name.map(short),
        slurm_job_id: value("SLURM_JOB_ID").map(short),
        ends_unix_s: ends.filter(|end| *end > 0),
    }
}

pub(super) fn other_namespace(proc_root: &Path, folder: &Path) -> bool {
    namespaces::is_same(proc_root, folder, "pid") == Some(false)
}

/// The first library of [`LIBRARIES`] in the memory map.
pub fn mapped_library(folder: &Path) -> Option<Arc<str>> {
    let maps = read_once(folder.join("maps"), READ_LIMIT).ok()?;
    let mapped = lines(&maps).filter_map(|line| {
        // Only the file name counts: a program inside a folder called libtorch does not.
        let slash = line.iter().rposition(|&byte| byte == b'/')?;
        let name = line.get(slash + 1..)?;
        LIBRARIES.iter().position(|library| name.starts_with(library.as_bytes()))
    });
    let best = mapped.min()?;
    LIBRARIES.get(best).map(|library| Arc::from(library.trim_end_matches(".so")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_runtimes_leave_visible() {
        let visible = |environ: &str| visible_in(environ.as_bytes()).map(|value| value.to_string());
        assert_eq!(visible("HOME=/root\0"), None);
        assert_eq!(visible("CUDA_VISIBLE_DEVICES=2,3\0").as_deref(), Some("2,3"));
        assert_eq!(visible("CUDA_VISIBLE_DEVICES=0\0HIP_VISIBLE_DEVICES=1\0").as_deref(), Some("1"));
        assert_eq!(visible("ROCR_VISIBLE_DEVICES=GPU-9a2b7c1d00ff8e31\0").as_deref(), Some("GPU-9a2b7c1d00ff8e31"));
        assert_eq!(visible("ROCR_VISIBLE_DEVICES=4, 5,7\0HIP_VISIBLE_DEVICES=2,0\0").as_deref(), Some("7,4"));
        assert_eq!(
            visible("ROCR_VISIBLE_DEVICES=4,5\0HIP_VISIBLE_DEVICES=1,9,0\0").as_deref(),
            Some("5"),
            "up to the first invalid one"
        );
    }

    #[test]
    fn a_run_is_called_what_its_launcher_says() {
        let told = |environ: &str| {
            let RunIdentity { name, slurm_job_id, ends_unix_s } = identity_in(environ.as_bytes());
            (name.map(|name| name.to_string()), slurm_job_id.map(|id| id.to_string()), ends_unix_s)
        };
        assert_eq!(told("HOME=/root\0TORCHELASTIC_RUN_ID=none\0SLURM_JOB_NAME=\0"), (None, None, None));
        assert_eq!(told("TORCHELASTIC_RUN_ID=llama\0").0.as_deref(), Some("llama"));
        let slurm = "TORCHELASTIC_RUN_ID=x\0SLURM_JOB_NAME=sft\0SLURM_JOB_ID=77\0SLURM_JOB_END_TIME=1790000000\0";
        assert_eq!(told(slurm), (Some("sft".into()), Some("77".into()), Some(1_790_000_000)));
        let own = format!("TRAINMON_JOB={}\0SLURM_JOB_END_TIME=soon\0", "x".repeat(5000));
        let (name, _, ends) = told(&own);
        assert_eq!((name.map(|name| name.len()), ends), (Some(LONGEST_NAME), None));
    }

    #[test]
    fn a_rank_s_place_is_what_its_launcher_set() {
        let place = |rank, world, local_world| Some(RankPlace { rank, world, local_world });
        for (environ, expected) in [
            ("HOME=/root\0RANK=3\0WORLD_SIZE=8\0LOCAL_WORLD_SIZE=8\0", place(3, 8, Some(8))),
            ("WORLD_SIZE=16\0RANK=9\0SLURM_PROCID=1\0SLURM_NTASKS=2\0", place(9, 16, None)),
            ("SLURM_PROCID=1\0SLURM_NTASKS=4\0SLURM_NTASKS_PER_NODE=2\0", place(1, 4, Some(2))),
            ("OMPI_COMM_WORLD_RANK=0\0OMPI_COMM_WORLD_SIZE=2\0OMPI_COMM_WORLD_LOCAL_SIZE=9\0", place(0, 2, None)),
            ("LOCAL_RANK=3\0WORLD_SIZE=8\0", None),
            ("RANK=8\0WORLD_SIZE=8\0", None),
            ("RANK=0\0WORLD_SIZE=1\0", None),
            ("RANK=x\0WORLD_SIZE=\0RANKS=1\0", None),
            ("RANK=1\0WORLD_SIZE=4294967295\0", None),
            ("", None),
        ] {
            assert_eq!(place_in(environ.as_bytes()), expected, "{environ:?}");
        }
    }
}
