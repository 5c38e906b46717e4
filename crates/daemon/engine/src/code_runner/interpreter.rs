//! Interpreters that run code.

use std::path::Path;

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
        if is_installed("bash") { "bash" } else { "sh" }
    }

    /// Returns the reason why the interpreter is unavailable, if any.
    pub(super) fn problem(self) -> Option<String> {
        match self {
            Self::Shell => None,
            Self::Python if is_installed("python3") => None,
            Self::Python => Some(format!(
                "python3 not found in {}; install it (Debian, Ubuntu: apt install python3)",
                FOLDERS.join(", ")
            )),
        }
    }
}

fn is_installed(program: &str) -> bool {
    FOLDERS.iter().any(|folder| Path::new(folder).join(program).exists())
}
