//! Interpreters that run code.

use std::path::Path;
use std::sync::OnceLock;

/// Folders in which the sandbox looks for programs.
const FOLDERS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpreter {
    Shell,
    Python,
}

impl Interpreter {
    /// Returns bash if it is installed, else the system's shell.
    #[must_use]
    pub fn shell_program() -> &'static str {
        static FOUND: OnceLock<()> = OnceLock::new();
        if is_installed("bash", &FOUND) { "bash" } else { "sh" }
    }

    /// Returns the reason why the interpreter is unavailable, if any.
    pub(super) fn problem(self) -> Option<String> {
        static FOUND: OnceLock<()> = OnceLock::new();
        match self {
            Self::Shell => None,
            Self::Python if is_installed("python3", &FOUND) => None,
            Self::Python => Some(format!(
                "python3 not found in {}; install it (Debian, Ubuntu: apt install python3)",
                FOLDERS.join(", ")
            )),
        }
    }
}

/// Whether a program is installed. Asked for every turn, so a program is not searched for again once it was `found`.
fn is_installed(program: &str, found: &OnceLock<()>) -> bool {
    if found.get().is_none() && FOLDERS.iter().any(|folder| Path::new(folder).join(program).exists()) {
        found.get_or_init(|| ());
    }
    found.get().is_some()
}
