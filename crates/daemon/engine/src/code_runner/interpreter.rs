//! The programs that code is run with.

use std::path::Path;

/// Where the sandbox looks for programs.
const FOLDERS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpreter {
    Shell,
    Python,
}

impl Interpreter {
    /// Bash where there is one, else the system's shell.
    #[must_use]
    pub fn shell_program() -> &'static str {
        if is_installed("bash") { "bash" } else { "sh" }
    }

    /// Why it cannot be started; `None` when it can.
    pub(super) fn problem(self) -> Option<String> {
        match self {
            Self::Shell => None,
            Self::Python if is_installed("python3") => None,
            Self::Python => Some(format!(
                "python3 is in none of {}; install it (Debian, Ubuntu: apt install python3)",
                FOLDERS.join(", ")
            )),
        }
    }
}

fn is_installed(program: &str) -> bool {
    FOLDERS.iter().any(|folder| Path::new(folder).join(program).exists())
}
