//! Attacks with paths that try to leave the workspace.

use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use super::{Bench, calls};

const SECRET: &str = "the secret text";

/// Creates a workspace with links, devices and sockets.
fn bench_with_traps() -> Bench {
    let bench = Bench::new();
    std::fs::write(bench.outside("secret"), SECRET).unwrap();
    std::fs::create_dir(bench.outside("folder")).unwrap();
    std::fs::write(bench.outside("folder/secret"), SECRET).unwrap();
    std::fs::create_dir_all(bench.inside("sub/deep")).unwrap();
    std::fs::write(bench.inside("a.txt"), "plain").unwrap();
    let link = |target: &str, name: &str| symlink(target, bench.inside(name)).unwrap();
    let outside = bench.outside("").to_str().unwrap().to_owned();
    link(&format!("{outside}secret"), "link_file");
    link(&outside, "link_folder");
    link("../outside", "link_relative");
    link("../outside/secret", "link_relative_file");
    link("/", "link_root");
    link("/proc/self/root", "link_proc");
    link("/proc/self/cwd", "link_cwd");
    link("link_loop", "link_loop");
    link("a.txt", "link_inside");
    link("sub", "link_inside_folder");
    link("..", "sub/link_up");
    link("../..", "sub/deep/link_up");
    link(&format!("{outside}new"), "dangling");
    link("../outside/new", "dangling_relative");
    link(&format!("{outside}new_folder"), "sub/dangling");
    link("/dev/stdin", "link_stdin");
    std::fs::hard_link(bench.outside("secret"), bench.inside("hard")).unwrap();
    std::fs::hard_link(bench.outside("folder/secret"), bench.inside("sub/hard")).unwrap();
    mknodat(CWD, bench.inside("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    if rustix::process::geteuid().is_root() {
        // `null` and `zero`; reading the second would never end.
        for (name, minor) in [("null", 3), ("zero", 5)] {
            let device = rustix::fs::makedev(1, minor);
            // A container may forbid it; the missing file is rejected as well.
            let _ = mknodat(CWD, bench.inside(name), FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, device);
        }
    }
    // The socket file remains after the listener is dropped.
    drop(std::os::unix::net::UnixListener::bind(bench.inside("socket")).unwrap());
    bench
}

fn attacks(bench: &Bench) -> Vec<String> {
    let outside = bench.outside("secret").to_str().unwrap().to_owned();
    let inside = bench.inside("a.txt").to_str().unwrap().to_owned();
    let mut attacks: Vec<String> = [
        "..",
        "../",
        "../outside",
        "../outside/secret",
        "./../outside/secret",
        ".//..//outside/secret",
        "sub/..",
        "sub/../../outside/secret",
        "sub/deep/../../../outside/secret",
        "a.txt/../../outside/secret",
        "missing/../../outside/secret",
        "../workspace/a.txt",
        "../../../../../../etc/passwd",
        "/",
        "//",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/dev/null",
        "~",
        "~/.ssh/id_rsa",
        "link_file",
        "link_folder",
        "link_folder/secret",
        "link_folder/folder/secret",
        "link_folder/new",
        "link_relative",
        "link_relative/secret",
        "link_relative_file",
        "link_root",
        "link_root/etc/passwd",
        "link_proc/etc/passwd",
        "link_cwd/Cargo.toml",
        "link_loop",
        "link_loop/x",
        "link_inside",
        "link_inside_folder/x",
        "sub/link_up",
        "sub/link_up/a.txt",
        "sub/deep/link_up/a.txt",
        "sub/deep/link_up/../outside/secret",
        "dangling",
        "dangling_relative",
        "sub/dangling/x",
        "link_stdin",
        "hard",
        "sub/hard",
        "./hard",
        "fifo",
        "fifo/x",
        "null/x",
        "zero/x",
        "socket",
        "socket/x",
        "a.txt/x",
        "a.txt\0",
        "\0",
        "sub\0/../../outside/secret",
        "../outside/secret\0.txt",
        "sub\n",
        "a\u{7f}",
        "\u{85}",
    ]
    .map(str::to_owned)
    .to_vec();
    attacks.extend([outside, inside, "n".repeat(256), "d/".repeat(65) + "x", "long/".repeat(1_000)]);
    attacks
}

#[tokio::test]
async fn paths_cannot_leave_the_workspace() {
    let bench = bench_with_traps();
    let attacks = attacks(&bench);
    assert!(attacks.len() >= 60);
    for attack in &attacks {
        for (tool, input) in calls(attack) {
            let done = bench.call(tool, input).await;
            let refusal = done.expect_err(&format!("{tool} took {attack:?}"));
            assert!(!refusal.contains(SECRET), "{tool} {attack:?}: {refusal}");
        }
    }
    for (path, content) in [("secret", SECRET), ("folder/secret", SECRET)] {
        assert_eq!(std::fs::read_to_string(bench.outside(path)).unwrap(), content);
    }
    let mut left: Vec<_> = std::fs::read_dir(bench.outside("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["folder", "secret"]);
    assert_eq!(std::fs::read_to_string(bench.inside("a.txt")).unwrap(), "plain");
}

#[tokio::test]
async fn device_files_are_not_opened() {
    let bench = bench_with_traps();
    for name in ["null", "zero", "fifo", "socket"] {
        for (tool, input) in calls(name) {
            bench.call(tool, input).await.expect_err(&format!("{tool} took {name}"));
        }
    }
}

#[tokio::test]
async fn tree_walks_stay_inside_the_workspace() {
    let bench = bench_with_traps();
    let found = bench.call("search_files", json!({"pattern": "secret|root:"})).await.unwrap();
    assert!(found.starts_with("[nothing matches]"), "{found}");
    assert!(found.contains("2 entries"), "hard links are counted as passed over: {found}");
    let listed = bench.call("list_files", json!({"depth": 16})).await.unwrap();
    assert!(listed.contains("link_folder -> ") && listed.contains("fifo  (no file)"), "{listed}");
    assert!(!listed.contains("folder/secret") && !listed.contains("link_folder/"), "{listed}");
    assert!(!listed.contains("sub/link_up/"), "{listed}");
}

/// Names that only look like escapes are ordinary names.
#[tokio::test]
async fn unusual_names_stay_inside_the_workspace() {
    let bench = Bench::new();
    for name in
        ["...", "..a", "a..", "..\\outside", "%2e%2e", "a b", "-rf", "\u{2024}\u{2024}", "ünï", ".hidden", "~x", "C:x"]
    {
        let written = bench.call("write_file", json!({"path": format!("{name}/{name}"), "content": name})).await;
        written.unwrap_or_else(|error| panic!("{name}: {error}"));
        let inside = std::fs::read_to_string(bench.inside(name).join(name)).unwrap();
        assert_eq!(inside, name);
        assert!(bench.call("read_file", json!({"path": format!("{name}/{name}")})).await.unwrap().contains(name));
    }
    assert_eq!(std::fs::read_dir(bench.outside("")).unwrap().count(), 0);
}
