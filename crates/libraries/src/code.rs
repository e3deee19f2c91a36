//! Which functions a row means: the ends of their files' paths, and their names.

use trainmon_base::text::is_one_of;

/// Functions in files. Files are matched by the end of their path, functions by the last dotted part of their name: py-spy
/// before 0.4.3 prints `get` where later versions print `Queue.get`.
#[derive(Debug, Clone, Copy)]
pub struct Code {
    /// Ends of paths (`torch/optim/adam.py`) or folders (`wandb/`), separated by commas.
    pub files: &'static str,
    /// Names separated by blanks; empty: any.
    pub functions: &'static str,
}

impl Code {
    /// These functions in these files.
    pub const fn new(files: &'static str, functions: &'static str) -> Self {
        Self { files, functions }
    }

    /// Whether the function is one of them.
    pub fn is_at(&self, file: &str, function: &str) -> bool {
        (self.functions.is_empty() || is_one_of(self.functions, last_part(function)))
            && self.files.split(", ").any(|tail| is_in(file, tail))
    }
}

/// The function's own name: `Queue.get` → `get`, `f.<locals>.g` → `g`.
pub fn last_part(function: &str) -> &str {
    function.rsplit('.').next().unwrap_or(function)
}

/// Whether the path ends with the tail, or is inside it if the tail is a folder.
pub fn is_in(file: &str, tail: &str) -> bool {
    if !tail.ends_with('/') {
        return file.strip_suffix(tail).is_some_and(|before| {
            before.is_empty() || before.ends_with('/') || tail.starts_with('/') || tail.starts_with('<')
        });
    }
    let bare = tail.trim_start_matches('/');
    file.match_indices(bare).any(|(at, _)| at == 0 || file.as_bytes().get(at - 1) == Some(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_matches_whole_parts_only() {
        let optimizers = Code::new("torch/optim/", "step");
        assert!(optimizers.is_at("/x/torch/optim/sgd.py", "SGD.step"));
        assert!(!optimizers.is_at("/home/me/mytorch/optim/sgd.py", "step"));
        assert!(!optimizers.is_at("/x/torch/optim/sgd.py", "stepper"));
        assert!(is_in("wandb/sdk/run.py", "wandb/"));
        assert!(!is_in("", "torch/optim/") && !is_in("/home/me/task_queue.py", "/queue.py"));
    }
}
