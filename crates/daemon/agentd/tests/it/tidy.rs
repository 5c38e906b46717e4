//! Checks rules that the compiler does not know: allowed dependencies between modules, and maximum file lengths.
//! The tables in ARCHITECTURE.md define the allowed dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Maximum length of a source file, which holds one idea.
const MAX_LINES: usize = 600;
/// Lines of code, without comments, that one crate may have.
const MAX_CRATE_LINES: usize = 30_000;
const MAX_HANDLER_LINES: usize = 15;
/// Modules that wire and run the domains may use all of them.
const UNRESTRICTED_MODULES: [&str; 4] = ["compose", "lifecycle", "cli", "main"];

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the repository")
}

fn source_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if !path.ends_with("target") {
                files.extend(source_files(&path));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Reads the table of ARCHITECTURE.md after the line `<!-- edges: NAME -->`.
fn edges(name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let (_, after) = text.split_once(&format!("<!-- edges: {name} -->")).expect("the table's mark");
    let rows = after.trim_start().lines().take_while(|line| line.starts_with('|')).skip(2);
    let words = |cell: &str| -> BTreeSet<String> {
        cell.split(',')
            .map(|word| word.trim().trim_matches('`').to_owned())
            .filter(|word| !word.is_empty() && word != "—")
            .collect()
    };
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        (cells[0].trim().trim_matches('`').to_owned(), words(cells[1]))
    })
    .collect()
}

fn assert_acyclic(edges: &BTreeMap<String, BTreeSet<String>>) {
    let mut left = edges.clone();
    while !left.is_empty() {
        let free: Vec<String> = left
            .iter()
            .filter(|(_, targets)| targets.iter().all(|target| !left.contains_key(target)))
            .map(|(name, _)| name.clone())
            .collect();
        assert!(!free.is_empty(), "a cycle among {:?}", left.keys());
        for name in free {
            left.remove(&name);
        }
    }
}

/// Returns the modules of the daemon's crates: name and path.
fn daemon_modules() -> BTreeMap<String, PathBuf> {
    let mut modules = BTreeMap::new();
    for crate_folder in folders(&root().join("crates/daemon")) {
        for entry in std::fs::read_dir(crate_folder.join("src")).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            if name == "lib" || UNRESTRICTED_MODULES.contains(&name.as_str()) {
                continue;
            }
            let other = modules.insert(name.clone(), path);
            assert!(other.is_none(), "two crates have a module `{name}`");
        }
    }
    modules
}

pub fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Returns the files of a module, which is a folder or a file.
fn files_of(module: &Path) -> Vec<PathBuf> {
    if module.is_dir() { source_files(module) } else { vec![module.to_owned()] }
}

#[test]
fn domains_use_only_documented_edges() {
    let allowed = edges("domains");
    assert_acyclic(&allowed);
    let modules = daemon_modules();
    let mut wrong = Vec::new();
    for (module, path) in &modules {
        let Some(targets) = allowed.get(module) else {
            wrong.push(format!("{module} is not in the table"));
            continue;
        };
        for file in files_of(path) {
            let text = std::fs::read_to_string(&file).expect("a file");
            for target in mentioned_modules(&text).into_iter().filter(|target| modules.contains_key(target)) {
                if target != *module && !targets.contains(&target) {
                    wrong.push(format!("{} uses {target}", file.display()));
                }
            }
        }
    }
    wrong.extend(
        allowed.keys().filter(|name| !modules.contains_key(*name)).map(|name| format!("{name} is not a module")),
    );
    assert!(wrong.is_empty(), "edges that ARCHITECTURE.md does not allow: {wrong:#?}");
}

/// Returns the modules named after `crate::` and after the name of one of the daemon's crates.
fn mentioned_modules(text: &str) -> BTreeSet<String> {
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let own = folders(&root().join("crates/daemon"))
        .into_iter()
        .map(|folder| format!("agentd_{}::", folder.file_name().expect("a name").to_string_lossy()));
    let mut found = BTreeSet::new();
    for mark in own.chain(["crate::".to_owned()]) {
        for (position, _) in text.match_indices(&mark) {
            let is_word = position > 0 && text.as_bytes()[position - 1].is_ascii_alphanumeric();
            let rest = &text[position + mark.len()..];
            assert!(!rest.starts_with('{'), "write one `use {mark}…` per line");
            if !is_word {
                found.insert(name(rest));
            }
        }
    }
    found.retain(|module| module.chars().next().is_some_and(char::is_lowercase));
    found
}

/// Returns the crates of the workspace below `crates`, as reported by Cargo.
fn packages() -> Vec<Value> {
    #[allow(clippy::disallowed_methods, reason = "the test waits for the process")]
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let folder = root().join("crates");
    let is_below =
        |package: &Value| package["manifest_path"].as_str().is_some_and(|path| Path::new(path).starts_with(&folder));
    let mut packages = metadata["packages"].as_array().expect("packages").clone();
    packages.retain(is_below);
    packages
}

/// Returns the workspace crates among the dependencies of one kind, without the prefix.
fn own_dependencies(package: &Value, kind: &Value) -> BTreeSet<String> {
    let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
    let names =
        dependencies.filter(|dependency| dependency["kind"] == *kind).filter_map(|found| found["name"].as_str());
    names.filter_map(|name| name.strip_prefix("agentd-")).map(str::to_owned).collect()
}

/// Returns a table with one row per crate, in topological order.
fn crate_table() -> String {
    let mut left = packages();
    let mut done: BTreeSet<String> = BTreeSet::new();
    let mut table = String::from("| crate | description | uses |\n|---|---|---|");
    while !left.is_empty() {
        let is_next = |package: &Value| own_dependencies(package, &Value::Null).is_subset(&done);
        let at = left.iter().position(is_next).expect("Cargo rejects cycles");
        let package = left.remove(at);
        let path = Path::new(package["manifest_path"].as_str().expect("a path")).parent().expect("a folder");
        let folder = path.strip_prefix(root().join("crates")).expect("inside").display().to_string();
        let uses = own_dependencies(&package, &Value::Null).into_iter().map(|name| format!("`{name}`"));
        let uses = uses.collect::<Vec<_>>().join(", ");
        let purpose = package["description"].as_str().expect("every crate has a description");
        table += &format!("\n| `{folder}` | {purpose} | {} |", if uses.is_empty() { "—" } else { &uses });
        done.insert(package["name"].as_str().expect("a name").trim_start_matches("agentd-").to_owned());
    }
    table
}

/// Updates the table instead if `AGENTD_TEST_REWRITE` is set.
#[test]
fn crate_table_matches_the_manifests() {
    assert_or_update_section("crates", &crate_table());
}

/// Compares a marked section of ARCHITECTURE.md with the expected text, or updates it.
fn assert_or_update_section(mark: &str, expected: &str) {
    let path = root().join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path).expect("ARCHITECTURE.md");
    let (begin, end) = (format!("<!-- {mark} -->\n"), format!("\n<!-- end of {mark} -->"));
    let (before, after) = text.split_once(&begin).expect("the start marker");
    let (shown, rest) = after.split_once(&end).expect("the end marker");
    if std::env::var_os("AGENTD_TEST_REWRITE").is_some() {
        std::fs::write(&path, format!("{before}{begin}{expected}{end}{rest}")).expect("write ARCHITECTURE.md");
        return;
    }
    assert_eq!(shown, expected, "run `make module-graph` to update it");
}

#[test]
fn crates_stay_below_the_line_limit() {
    let mut large = Vec::new();
    for package in packages() {
        let source = Path::new(package["manifest_path"].as_str().expect("a path")).with_file_name("src");
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        let files = source_files(&source);
        let lines =
            files.iter().map(|file| std::fs::read_to_string(file).expect("a file").lines().filter(is_code).count());
        let lines: usize = lines.sum();
        if lines > MAX_CRATE_LINES {
            large.push(format!("{} has {lines} lines", package["name"]));
        }
    }
    assert!(large.is_empty(), "{large:#?}");
}

/// Test doubles are dev-dependencies, and no crate has a feature that enables one.
#[test]
fn test_doubles_are_not_linked_into_the_daemon() {
    let mut wrong = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().expect("a name");
        let is_double = |used: &String| used.starts_with("testing-");
        let used = own_dependencies(&package, &Value::Null);
        if !name.starts_with("agentd-testing-") && used.iter().any(is_double) {
            wrong.push(format!("{name} uses {used:?}"));
        }
        let features = package["features"].as_object().expect("features").keys();
        wrong
            .extend(features.filter(|feature| feature.starts_with("fake")).map(|feature| format!("{name}: {feature}")));
    }
    assert!(wrong.is_empty(), "only dev-dependencies may name crates of `crates/testing`: {wrong:#?}");
}

#[test]
fn files_stay_below_the_line_limit() {
    let mut long = Vec::new();
    for folder in ["crates", "bench"] {
        for file in source_files(&root().join(folder)) {
            let lines = std::fs::read_to_string(&file).expect("a file").lines().count();
            if lines > MAX_LINES {
                long.push(format!("{} has {lines} lines", file.display()));
            }
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

/// A module with submodules is a folder with a `mod.rs`, not a file next to its folder.
#[test]
fn modules_with_submodules_use_mod_rs() {
    let files = source_files(&root().join("crates")).into_iter();
    let beside: Vec<_> = files
        .filter(|file| !file.components().any(|part| part.as_os_str() == "tests"))
        .filter(|file| file.with_extension("").is_dir())
        .collect();
    assert!(beside.is_empty(), "make these the `mod.rs` of their folder: {beside:#?}");
}

#[test]
fn handlers_stay_below_the_line_limit() {
    let mut long = Vec::new();
    for file in daemon_modules().values().flat_map(|module| files_of(module)) {
        let text = std::fs::read_to_string(&file).expect("a file");
        for after in text.split("#[utoipa::path(").skip(1) {
            let name = after.split("fn ").nth(1).and_then(|rest| rest.split(['(', '<']).next()).unwrap_or_default();
            let mut lines = after.lines().skip_while(|line| !line.contains("fn "));
            let body = lines.by_ref().skip_while(|line| !line.ends_with('{')).skip(1);
            let count = body.take_while(|line| *line != "}").count();
            if count > MAX_HANDLER_LINES {
                long.push(format!("{}: {name} has {count} lines", file.display()));
            }
        }
    }
    assert!(long.is_empty(), "move logic from these handlers to the service: {long:#?}");
}

/// Only the `mod.rs` of a domain imports its workers and routes. The runtime is exempt: its `worker` module defines the
/// worker trait.
#[test]
fn only_mod_rs_imports_workers_and_routes() {
    let mut wrong = Vec::new();
    for (domain, folder) in daemon_modules().into_iter().filter(|(domain, path)| domain != "runtime" && path.is_dir()) {
        for (module, targets) in inner_edges(&folder, &domain) {
            let top = targets.into_iter().filter(|target| ["worker", "routes"].contains(&target.as_str()));
            wrong.extend(top.map(|target| format!("{domain}: {module} imports {target}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn routes_contain_no_sql_and_models_no_io() {
    let mut wrong = Vec::new();
    for file in daemon_modules().values().flat_map(|module| files_of(module)) {
        let text = std::fs::read_to_string(&file).expect("a file");
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let shown = file.strip_prefix(root()).expect("inside").display().to_string();
        let is_in = |part: &str| file.ends_with(format!("{part}.rs")) || shown.contains(&format!("/{part}/"));
        if is_in("routes")
            && ["SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM "].iter().any(|sql| text.contains(sql))
        {
            wrong.push(format!("{shown} contains SQL"));
        }
        if is_in("model") && ["async ", "Tx", "axum", "StatusCode"].iter().any(|word| contains_word(text, word.trim()))
        {
            wrong.push(format!("{shown} contains more than rules"));
        }
        if is_in("service") && contains_word(text, "StatusCode") {
            wrong.push(format!("{shown} depends on HTTP"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn contains_word(text: &str, word: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    lines.into_iter().any(|line| {
        line.match_indices(word).any(|(at, _)| {
            !line[..at].chars().next_back().is_some_and(is_part)
                && !line[at + word.len()..].chars().next().is_some_and(is_part)
        })
    })
}

#[test]
fn modules_of_a_domain_form_no_cycle() {
    let mut wrong = Vec::new();
    for (domain, folder) in daemon_modules().into_iter().filter(|(_, path)| path.is_dir()) {
        let edges = inner_edges(&folder, &domain);
        wrong.extend(find_cycle(&edges).map(|modules| format!("{domain}: {modules}")));
    }
    assert!(wrong.is_empty(), "dependency cycles between modules of a domain: {wrong:#?}");
}

/// Returns the modules of a domain that each of its modules uses.
fn inner_edges(folder: &Path, domain: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in source_files(folder) {
        let mut path: Vec<String> = file
            .strip_prefix(folder)
            .expect("inside")
            .with_extension("")
            .components()
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        path.retain(|part| part != "mod");
        // The `mod.rs` of the domain names its modules, and tests may use any module.
        let Some(module) = path.first().cloned().filter(|_| path.iter().all(|part| part != "tests")) else { continue };
        let text = std::fs::read_to_string(&file).expect("a file");
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: String =
            text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        let targets = edges.entry(module.clone()).or_default();
        targets.extend(used_modules(&code, &path, domain).into_iter().filter(|target| *target != module));
    }
    let modules: BTreeSet<String> = edges.keys().cloned().collect();
    edges.values_mut().for_each(|targets| targets.retain(|target| modules.contains(target)));
    edges
}

/// Returns the modules used through `crate::<domain>::` and `super::` from a module at `path`.
fn used_modules(code: &str, path: &[String], domain: &str) -> BTreeSet<String> {
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    // `use` trees begin with a module or a list of modules.
    let heads = |rest: &str| -> Vec<String> {
        match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default().split(',').map(|part| name(part.trim())).collect(),
            None => vec![name(rest)],
        }
    };
    let mut found = BTreeSet::new();
    for (at, mark) in code.match_indices(&format!("crate::{domain}::")) {
        found.extend(heads(&code[at + mark.len()..]));
    }
    let upwards = "super::".repeat(path.len());
    for (at, mark) in code.match_indices(upwards.as_str()) {
        let is_deeper = code[..at].ends_with("super::") || code[at + mark.len()..].starts_with("super");
        if !is_deeper {
            found.extend(heads(&code[at + mark.len()..]));
        }
    }
    found
}

/// Removes modules without remaining dependencies until none is left; returns the rest, which contains a cycle.
fn find_cycle(edges: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let mut left = edges.clone();
    loop {
        let before = left.len();
        let names: BTreeSet<String> = left.keys().cloned().collect();
        left.retain(|_, targets| targets.iter().any(|target| names.contains(target)));
        if left.len() == before {
            return (!left.is_empty()).then(|| left.into_keys().collect::<Vec<_>>().join(", "));
        }
    }
}

/// Renders the dependency graph as a Mermaid diagram, without edges that follow from others.
fn module_diagram() -> String {
    let modules = daemon_modules();
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, path) in &modules {
        for file in files_of(path) {
            let named = mentioned_modules(&std::fs::read_to_string(&file).expect("a file"));
            used.entry(module.clone()).or_default().extend(named.into_iter().filter(|target| target != module));
        }
    }
    let reaches = |from: &str, to: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            let next = used.get(module).into_iter().flatten().map(String::as_str);
            open.extend(next.filter(|target| seen.insert(*target)));
        }
        seen.contains(to)
    };
    let mut lines = vec!["```mermaid".to_owned(), "graph TD".to_owned()];
    for (module, targets) in &used {
        for target in targets.iter().filter(|target| modules.contains_key(*target)) {
            let is_implied = targets.iter().any(|other| other != target && reaches(other, target));
            if !is_implied {
                lines.push(format!("    {module} --> {target}"));
            }
        }
    }
    lines.push("```".to_owned());
    lines.join("\n")
}

/// Updates the diagram instead if `AGENTD_TEST_REWRITE` is set.
#[test]
fn module_diagram_matches_the_code() {
    assert_or_update_section("picture", &module_diagram());
}
