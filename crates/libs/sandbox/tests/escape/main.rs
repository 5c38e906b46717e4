//! Escape suite: every attack on every available tier, as root (if run as root) and as an ordinary user. Prints a table
//! and fails if an attack succeeds.
//!
//! An argument filters the attacks by name. The same binary is the suite, the daemon's init, and the attacker.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that brings its own main")]

mod attacks;
mod suite;

use std::process::ExitCode;

/// Variable in the suite's environment that must not be visible inside.
const SECRET_VARIABLE: &str = "AGENTD_ESCAPE_SECRET";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["sandbox-init", rest @ ..] => agentd_sandbox::init::main(rest.iter().map(Into::into)),
        ["attack", name, target] => attack(name, target),
        ["suite", only @ ..] => suite::run(only.first().copied().unwrap_or_default()),
        ["control"] => suite::control(),
        ["daemon", kind, target] => suite::daemon(kind, target),
        // Arguments used by test runners.
        [.., "--list"] => ExitCode::SUCCESS,
        only => suite::as_root_and_as_user(only.first().copied().unwrap_or_default()),
    }
}

fn attack(name: &str, target: &str) -> ExitCode {
    let target = serde_json::from_str(target).unwrap();
    let Some((_, attack)) = attacks::ATTACKS.iter().find(|(known, _)| *known == name) else {
        return ExitCode::from(3);
    };
    for reached in attack(&target) {
        println!("{}{reached}", suite::REACHED);
    }
    println!("{}", suite::COMPLETED);
    ExitCode::SUCCESS
}
