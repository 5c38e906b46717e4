//! Standalone init for tests and benchmarks; the daemon includes it as a hidden subcommand.

fn main() {
    agentd_sandbox::init::main(std::env::args_os().skip(1))
}
