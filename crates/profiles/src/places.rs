//! What happened where in a program: names as they are told, and the function of the user's own code, by the names that a profiler gives to Python
//! functions, or by the call stack that older versions put beside an operator.

use super::names::is_users_code;

/// Longest part of a call stack that is looked through, bytes.
const STACK_MAX: usize = 16 << 10;

/// How autograd's engine names the run of a function; the function itself is within.
const ENGINE: &str = "autograd::engine::evaluate_function: ";
/// Longest name that is told, characters.
const NAME_MAX: usize = 120;

/// A function of the user's own code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserPlace {
    /// `train.py:41`.
    pub at: String,
    /// Its name.
    pub function: String,
}

/// A name as it is told: that of autograd's function, and not too long.
pub fn shown(name: &str) -> String {
    name.strip_prefix(ENGINE).unwrap_or(name).chars().take(NAME_MAX).collect()
}

/// `/home/me/train.py(41): train_step` → `train.py:41`, `train_step`.
pub(crate) fn of_function(name: &str) -> Option<UserPlace> {
    let (place, function) = name.split_once("): ")?;
    let (file, line) = place.rsplit_once('(')?;
    let file = file.rsplit(['/', '\\']).next()?;
    Some(UserPlace { at: format!("{file}:{line}"), function: function.to_owned() })
}

/// The innermost function of the user's own code in a call stack of an older version: frames with `;` between, innermost first.
pub(crate) fn of_call_stack(stack: &str) -> Option<UserPlace> {
    let mut end = stack.len().min(STACK_MAX);
    while !stack.is_char_boundary(end) {
        end -= 1;
    }
    stack.get(..end)?.split(';').find(|frame| is_users_code(frame)).and_then(of_function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_own_code_is_found() {
        let place = |at: &str, function: &str| Some(UserPlace { at: at.into(), function: function.into() });
        assert_eq!(of_function("/home/me/run/train.py(41): train_step"), place("train.py:41", "train_step"));
        assert_eq!(of_function("<built-in method item of Tensor object at 0x7f>"), None);
        let stack = "/env/lib/python3.7/site-packages/torch/nn/functional.py(7): relu;./resnet50.py(37): train;<string>(1): <module>";
        assert_eq!(of_call_stack(stack), place("resnet50.py:37", "train"));
        assert_eq!(of_call_stack("torch/optim/sgd.py(9): step"), None);
        assert_eq!(of_call_stack(&"é".repeat(STACK_MAX)), None);
    }
}
