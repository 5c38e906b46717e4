//! Typical use of the file tools.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::Bench;
use crate::tools::MAX_READ_CHARACTERS;

#[tokio::test]
async fn file_is_read_in_pages() {
    let bench = Bench::new();
    let text: String = (1..=5_000).map(|number| format!("line {number}\r\n")).collect();
    std::fs::write(bench.inside("long.txt"), text).unwrap();
    let first = bench.call("read_file", json!({"path": "long.txt"})).await.unwrap();
    assert!(first.starts_with("     1\tline 1\n     2\tline 2\n"), "{}", &first[..60]);
    assert!(first.ends_with("[lines 1 to 1712 of 5000; 3288 more: go on with first_line 1713]"));
    assert!(first.chars().count() < MAX_READ_CHARACTERS, "a page is read in one piece");
    let middle = bench.call("read_file", json!({"path": "long.txt", "first_line": 10, "max_lines": 2})).await.unwrap();
    assert_eq!(
        middle,
        "    10\tline 10\n    11\tline 11\n[lines 10 to 11 of 5000; 4989 more: go on with first_line 12]"
    );
    let last = bench.call("read_file", json!({"path": "long.txt", "first_line": 5000})).await.unwrap();
    assert_eq!(last, "  5000\tline 5000\n[lines 5000 to 5000 of 5000]");
    let behind = bench.call("read_file", json!({"path": "long.txt", "first_line": 5001})).await.unwrap_err();
    assert!(behind.contains("only 5000 lines"), "{behind}");
    std::fs::write(bench.inside("short.txt"), "one\ntwo").unwrap();
    assert_eq!(bench.call("read_file", json!({"path": "short.txt"})).await.unwrap(), "     1\tone\n     2\ttwo\n");
    std::fs::write(bench.inside("empty.txt"), "").unwrap();
    assert_eq!(bench.call("read_file", json!({"path": "empty.txt"})).await.unwrap(), "[`empty.txt` is empty]");
}

#[tokio::test]
async fn binary_and_oversized_files_are_reported() {
    let bench = Bench::new();
    std::fs::write(bench.inside("binary"), [0x7f, b'E', 0, 1]).unwrap();
    std::fs::write(bench.inside("latin"), b"caf\xe9\n").unwrap();
    std::fs::write(bench.inside("wide"), "é".repeat(10_000)).unwrap();
    let huge = std::fs::File::create(bench.inside("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    assert!(bench.call("read_file", json!({"path": "binary"})).await.unwrap_err().contains("binary file of 4 bytes"));
    assert!(bench.call("read_file", json!({"path": "latin"})).await.unwrap().contains("not UTF-8"));
    let wide = bench.call("read_file", json!({"path": "wide"})).await.unwrap();
    assert!(wide.contains("1 line cut at 8000 bytes") && !wide.contains("not UTF-8"), "{}", &wide[wide.len() - 200..]);
    assert!(bench.call("read_file", json!({"path": "huge"})).await.unwrap_err().contains("1099511627776 bytes"));
    assert!(bench.call("edit_file", json!({"path": "huge", "old_text": "a", "new_text": "b"})).await.is_err());
    let found = bench.call("search_files", json!({"pattern": "caf"})).await.unwrap();
    assert!(found.contains("latin:1: caf") && found.contains("1 file of more than"), "{found}");
}

#[tokio::test]
async fn write_is_atomic_and_keeps_the_mode() {
    let bench = Bench::new();
    let made = bench.call("write_file", json!({"path": "a/b/run.sh", "content": "echo 1\n"})).await.unwrap();
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made, json!({"path": "a/b/run.sh", "bytes": 7, "created": true}));
    let path = bench.inside("a/b/run.sh");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let again = bench.call("write_file", json!({"path": "a/b/run.sh", "content": "echo 2\n"})).await.unwrap();
    assert!(again.contains("\"created\":false"));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "echo 2\n");
    let left = std::fs::read_dir(bench.inside("a/b")).unwrap().count();
    assert_eq!(left, 1, "no temporary file is left");
    assert!(bench.call("write_file", json!({"path": "a/b", "content": ""})).await.unwrap_err().contains("folder"));
}

#[tokio::test]
async fn edit_replaces_only_unambiguous_text() {
    let bench = Bench::new();
    std::fs::write(bench.inside("f"), "one\ntwo\none\n").unwrap();
    let edit =
        |old: &str, new: &str, all: bool| json!({"path": "f", "old_text": old, "new_text": new, "replace_all": all});
    let several = bench.call("edit_file", edit("one", "1", false)).await.unwrap_err();
    assert!(several.contains("2 times") && several.contains("lines 1, 3"), "{several}");
    assert!(bench.call("edit_file", edit("three", "3", false)).await.unwrap_err().contains("does not occur"));
    assert!(bench.call("edit_file", edit("two", "two", false)).await.unwrap_err().contains("the same"));
    assert!(bench.call("edit_file", edit("two", "2\n2", false)).await.unwrap().contains("\"replacements\":1"));
    assert!(bench.call("edit_file", edit("one", "1", true)).await.unwrap().contains("\"replacements\":2"));
    assert_eq!(std::fs::read_to_string(bench.inside("f")).unwrap(), "1\n2\n2\n1\n");
    std::fs::write(bench.inside("big"), "a".repeat(1 << 20)).unwrap();
    let grown = json!({"path": "big", "old_text": "a", "new_text": "b".repeat(100), "replace_all": true});
    assert!(bench.call("edit_file", grown).await.unwrap_err().contains("longer than"));
}

#[tokio::test]
async fn edit_preserves_line_endings() {
    let bench = Bench::new();
    std::fs::write(bench.inside("f"), "one\r\ntwo\r\nthree\r\n").unwrap();
    let edit = |old: &str, new: &str| json!({"path": "f", "old_text": old, "new_text": new});
    bench.call("edit_file", edit("one\ntwo\n", "1\n2\n2\n")).await.unwrap();
    assert_eq!(std::fs::read_to_string(bench.inside("f")).unwrap(), "1\r\n2\r\n2\r\nthree\r\n");
    bench.call("edit_file", edit("2\r\nthree", "3")).await.unwrap();
    assert_eq!(std::fs::read_to_string(bench.inside("f")).unwrap(), "1\r\n2\r\n3\r\n");
    assert!(bench.call("edit_file", edit("3\n4", "")).await.unwrap_err().contains("does not occur"));
}

#[tokio::test]
async fn concurrent_edits_of_one_file_are_all_applied() {
    let bench = Bench::new();
    let text: String = (0..16).map(|number| format!("<{number}>\n")).collect();
    std::fs::write(bench.inside("f"), text).unwrap();
    let edits = (0..16).map(|number| {
        let input = json!({"path": "f", "old_text": format!("<{number}>"), "new_text": format!("[{number}]")});
        bench.call("edit_file", input)
    });
    for done in futures_util::future::join_all(edits).await {
        done.unwrap();
    }
    let expected: String = (0..16).map(|number| format!("[{number}]\n")).collect();
    assert_eq!(std::fs::read_to_string(bench.inside("f")).unwrap(), expected);
}

#[tokio::test]
async fn folders_are_listed_breadth_first() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.inside("src/deep/deeper")).unwrap();
    std::fs::write(bench.inside("src/main.rs"), "fn main() {}").unwrap();
    std::fs::write(bench.inside("src/deep/deeper/x"), "").unwrap();
    std::fs::write(bench.inside("README"), "hi").unwrap();
    let listed = bench.call("list_files", json!({})).await.unwrap();
    assert_eq!(listed, "README  (2 bytes)\nsrc/\nsrc/deep/\nsrc/main.rs  (12 bytes)");
    let deep = bench.call("list_files", json!({"path": "src", "depth": 3})).await.unwrap();
    assert_eq!(deep, "src/deep/\nsrc/deep/deeper/\nsrc/deep/deeper/x  (0 bytes)\nsrc/main.rs  (12 bytes)");
    std::fs::create_dir(bench.inside("a")).unwrap();
    for number in 0..1_500 {
        std::fs::write(bench.inside(&format!("a/{number}")), "").unwrap();
    }
    let many = bench.call("list_files", json!({})).await.unwrap();
    assert!(many.contains("not everything is shown") && many.contains("src/") && many.contains("README"));
    assert_eq!(many.lines().count(), 1_001);
    assert!(bench.call("list_files", json!({"path": "README"})).await.unwrap_err().contains("not a folder"));
    assert!(bench.call("list_files", json!({"path": "none"})).await.unwrap_err().contains("`none` not found"));
}

#[tokio::test]
async fn search_results_are_bounded() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.inside("src")).unwrap();
    std::fs::create_dir_all(bench.inside(".git")).unwrap();
    std::fs::write(bench.inside("src/a.rs"), "fn one() {}\nfn two() {}\n").unwrap();
    std::fs::write(bench.inside(".git/config"), "fn hidden").unwrap();
    std::fs::write(bench.inside("binary"), b"fn \0").unwrap();
    std::fs::write(bench.inside("long"), format!("{}fn far(){}", "x".repeat(5_000), "y".repeat(5_000))).unwrap();
    let found = bench.call("search_files", json!({"pattern": r"fn \w+\("})).await.unwrap();
    assert!(found.contains("src/a.rs:1: fn one() {}\nsrc/a.rs:2: fn two() {}"), "{found}");
    assert!(found.contains("long:1: …") && found.len() < 1_000, "{found}");
    assert!(!found.contains("hidden"));
    let named = bench.call("search_files", json!({"pattern": "hidden", "path": ".git"})).await.unwrap();
    assert_eq!(named, ".git/config:1: fn hidden");
    let one = bench.call("search_files", json!({"pattern": "fn", "path": "src", "max_results": 1})).await.unwrap();
    assert!(one.starts_with("src/a.rs:1:") && one.contains("there may be more"), "{one}");
    let empty = bench.call("search_files", json!({"pattern": "^$", "path": "src"})).await.unwrap();
    assert_eq!(empty, "[nothing matches]");
    for (bad, why) in
        [("(", "regular expression"), (r"(?:\pL{1000}){1000}", "too large"), (r"(a)\1", "regular expression")]
    {
        let refused = bench.call("search_files", json!({"pattern": bad})).await.unwrap_err();
        assert!(refused.contains(why), "{bad}: {refused}");
    }
}

/// Files written by a root daemon are usable by the owner of the workspace.
#[tokio::test]
async fn new_files_belong_to_the_owner_of_the_workspace() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    use std::os::unix::fs::{MetadataExt, chown};
    let bench = Bench::new();
    chown(bench.inside(""), Some(12_345), Some(12_346)).unwrap();
    bench.call("write_file", json!({"path": "new/file", "content": "x"})).await.unwrap();
    for path in ["new", "new/file"] {
        let made = std::fs::metadata(bench.inside(path)).unwrap();
        assert_eq!((made.uid(), made.gid()), (12_345, 12_346), "{path}");
    }
}
