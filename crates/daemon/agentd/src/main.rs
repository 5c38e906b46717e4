//! Entry point of the `agentd` binary.

fn main() -> std::process::ExitCode {
    agentd::cli::main()
}
