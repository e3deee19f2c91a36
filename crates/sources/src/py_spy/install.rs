//! The command that installs py-spy and works here: py-spy is found afterwards and, for root, trusted.

use std::env;
use std::path::PathBuf;

use trainmon_base::text::shell_word;
use trainmon_base::trust;

/// Installs py-spy where root trusts it, on any system with Python, without touching system packages.
const INSTALL: [&str; 3] = [
    "python3 -m venv /opt/py-spy",
    "/opt/py-spy/bin/pip install py-spy",
    "ln -sf /opt/py-spy/bin/py-spy /usr/local/bin/",
];

/// The command that installs py-spy where trainmon finds it and, as root, trusts it.
pub(crate) fn install_command() -> String {
    match own_environment() {
        Some(python) => format!("{} -m pip install py-spy", shell_word(&python)),
        None if !trust::privileged() => "pip install py-spy".to_owned(),
        None => INSTALL.map(as_root).join(" && "),
    }
}

/// The command that upgrades it there.
pub(crate) fn upgrade_command() -> String {
    install_command().replace(" install ", " install --upgrade ")
}

/// With the rights of the program's file, unlike with sudo, the caller is not root.
pub(super) fn as_root(command: &str) -> String {
    if trust::is_secure() { format!("sudo {command}") } else { command.to_owned() }
}

/// The interpreter of the virtual environment that contains trainmon, unless another user could have put it there.
fn own_environment() -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let bin = own.parent()?;
    let python = bin.join("python");
    // Environments made by uv have no pip.
    let is_environment = bin.parent()?.join("pyvenv.cfg").is_file() && bin.join("pip").is_file();
    let is_ours = !trust::privileged() || trust::folder(bin).is_ok() && trust::open(&python).is_ok();
    (is_environment && is_ours && python.is_file()).then_some(python)
}
