//! The rules of the house that the compiler does not know: which way things point, and how long a
//! file may be. The tables in ARCHITECTURE.md are the law; this test reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Maximum length of a source file, which holds one idea.
const MAX_LINES: usize = 600;
const MAX_LINES_OF_A_HANDLER: usize = 15;
/// What wires and runs the domains knows them all.
const KERNEL_THAT_KNOWS_ALL: [&str; 4] = ["compose", "lifecycle", "cli", "main"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
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

/// Reads a table of ARCHITECTURE.md: the one after the line `<!-- edges: NAME -->`.
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

#[test]
fn domains_use_only_the_edges_of_the_table() {
    let allowed = edges("domains");
    assert_acyclic(&allowed);
    let source = root().join("crates/agentd/src");
    let mut wrong = Vec::new();
    for file in source_files(&source) {
        let relative = file.strip_prefix(&source).expect("inside");
        let domain = relative.components().next().expect("a part").as_os_str().to_string_lossy();
        let domain = domain.trim_end_matches(".rs").to_owned();
        if domain == "lib" || KERNEL_THAT_KNOWS_ALL.contains(&domain.as_str()) {
            continue;
        }
        let Some(targets) = allowed.get(&domain) else {
            wrong.push(format!("{domain} is not in the table"));
            continue;
        };
        let text = std::fs::read_to_string(&file).expect("a file");
        for target in mentioned_modules(&text) {
            if target != domain && !targets.contains(&target) {
                wrong.push(format!("{} uses {target}", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "edges that ARCHITECTURE.md does not allow: {wrong:#?}");
}

/// The modules after `crate::`, braces included.
fn mentioned_modules(text: &str) -> BTreeSet<String> {
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = BTreeSet::new();
    for (position, _) in text.match_indices("crate::") {
        let is_word = position > 0 && text.as_bytes()[position - 1].is_ascii_alphanumeric();
        let rest = &text[position + "crate::".len()..];
        assert!(!rest.starts_with('{'), "write one `use crate::…` a line, so that edges can be read");
        if !is_word {
            found.insert(name(rest));
        }
    }
    found.retain(|module| module.chars().next().is_some_and(char::is_lowercase));
    found
}

#[test]
fn crates_use_only_the_edges_of_the_table() {
    let allowed = edges("crates");
    assert_acyclic(&allowed);
    let mut wrong = Vec::new();
    for (name, manifest) in manifests() {
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        let used = dependencies
            .lines()
            .filter_map(|line| line.strip_prefix("agentd-"))
            .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '-').collect::<String>());
        let targets = allowed.get(&name).unwrap_or_else(|| panic!("crate {name} is not in the table"));
        wrong.extend(used.filter(|target| !targets.contains(target)).map(|target| format!("{name} uses {target}")));
    }
    assert!(wrong.is_empty(), "edges that ARCHITECTURE.md does not allow: {wrong:#?}");
}

/// Name and manifest of every crate below `crates/`. A test double in `testing/NAME` is called `testing-NAME`.
fn manifests() -> Vec<(String, String)> {
    let crates = root().join("crates");
    let read = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
    };
    let doubles = read(&crates.join("testing"));
    let folders = read(&crates).into_iter().filter(|folder| !folder.ends_with("testing")).chain(doubles);
    folders
        .map(|folder| {
            let path = folder.strip_prefix(&crates).expect("inside").to_string_lossy().replace('/', "-");
            (path, std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest"))
        })
        .collect()
}

/// Test doubles are dev-dependencies, so that none is linked into the daemon, and no crate has a feature that adds one.
#[test]
fn test_doubles_are_not_linked_into_the_daemon() {
    let mut wrong = Vec::new();
    for (name, manifest) in manifests().iter().filter(|(name, _)| !name.starts_with("testing-")) {
        let mut section = "";
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let is_linked = section.ends_with("dependencies]") && !section.ends_with("dev-dependencies]");
            let is_fake = section == "[features]" && line.starts_with("fake");
            if is_fake || (is_linked && line.starts_with("agentd-testing-")) {
                wrong.push(format!("{name}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "only dev-dependencies may name crates of `crates/testing`: {wrong:#?}");
}

#[test]
fn no_file_is_longer_than_the_limit() {
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

/// A module with modules of its own is a folder with a `mod.rs`, never a file beside its folder.
#[test]
fn modules_are_laid_out_one_way() {
    let files = source_files(&root().join("crates")).into_iter();
    let beside: Vec<_> = files
        .filter(|file| !file.components().any(|part| part.as_os_str() == "tests"))
        .filter(|file| file.with_extension("").is_dir())
        .collect();
    assert!(beside.is_empty(), "make these the `mod.rs` of their folder: {beside:#?}");
}

#[test]
fn handlers_are_short() {
    let mut long = Vec::new();
    for file in source_files(&root().join("crates/agentd/src")) {
        let text = std::fs::read_to_string(&file).expect("a file");
        for after in text.split("#[utoipa::path(").skip(1) {
            let name = after.split("fn ").nth(1).and_then(|rest| rest.split(['(', '<']).next()).unwrap_or_default();
            let mut lines = after.lines().skip_while(|line| !line.contains("fn "));
            let body = lines.by_ref().skip_while(|line| !line.ends_with('{')).skip(1);
            let count = body.take_while(|line| *line != "}").count();
            if count > MAX_LINES_OF_A_HANDLER {
                long.push(format!("{}: {name} has {count} lines", file.display()));
            }
        }
    }
    assert!(long.is_empty(), "what a handler does belongs to the service: {long:#?}");
}

/// Only the `mod.rs` of a domain imports its workers and routes. The runtime is exempt: its `worker` module defines the
/// worker trait.
#[test]
fn nothing_imports_workers_or_routes() {
    let source = root().join("crates/agentd/src");
    let mut wrong = Vec::new();
    let domains = edges("domains").into_keys().filter(|domain| domain != "runtime" && source.join(domain).is_dir());
    for domain in domains {
        for (module, targets) in inner_edges(&source.join(&domain), &domain) {
            let top = targets.into_iter().filter(|target| ["worker", "routes"].contains(&target.as_str()));
            wrong.extend(top.map(|target| format!("{domain}: {module} imports {target}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn routes_hold_no_sql_and_models_no_io() {
    let source = root().join("crates/agentd/src");
    let mut wrong = Vec::new();
    for file in source_files(&source) {
        let text = std::fs::read_to_string(&file).expect("a file");
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let shown = file.strip_prefix(&source).expect("inside").display().to_string();
        let is_in = |part: &str| file.ends_with(format!("{part}.rs")) || shown.contains(&format!("/{part}/"));
        if is_in("routes")
            && ["SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM "].iter().any(|sql| text.contains(sql))
        {
            wrong.push(format!("{shown} holds SQL"));
        }
        if is_in("model") && ["async ", "Tx", "axum", "StatusCode"].iter().any(|word| contains_word(text, word.trim()))
        {
            wrong.push(format!("{shown} holds more than rules"));
        }
        if is_in("service") && contains_word(text, "StatusCode") {
            wrong.push(format!("{shown} knows HTTP"));
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
fn modules_of_a_domain_form_no_circle() {
    let source = root().join("crates/agentd/src");
    let mut wrong = Vec::new();
    for domain in edges("domains").into_keys().filter(|domain| source.join(domain).is_dir()) {
        let edges = inner_edges(&source.join(&domain), &domain);
        wrong.extend(circle(&edges).map(|modules| format!("{domain}: {modules}")));
    }
    assert!(wrong.is_empty(), "modules of a domain that know each other in a circle: {wrong:#?}");
}

/// Which modules of a domain each of them names.
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
        // What a domain shows of itself names its modules, and tests may name anything.
        let Some(module) = path.first().cloned().filter(|_| path.iter().all(|part| part != "tests")) else { continue };
        let text = std::fs::read_to_string(&file).expect("a file");
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: String =
            text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        let targets = edges.entry(module.clone()).or_default();
        targets.extend(named_from(&code, &path, domain).into_iter().filter(|target| *target != module));
    }
    let modules: BTreeSet<String> = edges.keys().cloned().collect();
    edges.values_mut().for_each(|targets| targets.retain(|target| modules.contains(target)));
    edges
}

/// The modules of the domain behind `crate::<domain>::` and enough `super::`, at `path` below it.
fn named_from(code: &str, path: &[String], domain: &str) -> BTreeSet<String> {
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    // `use` trees begin with a module or hold a list of them.
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

/// The modules that are left when those that know nobody left are taken away, one after the other.
fn circle(edges: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
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

/// The edges that the code has, in the order of the table; of those that follow from others only the others, so
/// that the picture can be read.
fn picture() -> String {
    let source = root().join("crates/agentd/src");
    let modules = edges("domains");
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in source_files(&source) {
        let relative = file.strip_prefix(&source).expect("inside");
        let module = relative.components().next().expect("a part").as_os_str().to_string_lossy();
        let module = module.trim_end_matches(".rs").to_owned();
        if modules.contains_key(&module) {
            let named = mentioned_modules(&std::fs::read_to_string(&file).expect("a file"));
            used.entry(module.clone()).or_default().extend(named.into_iter().filter(|target| *target != module));
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

/// With `AGENTD_TEST_REWRITE` it draws the picture anew instead.
#[test]
fn the_picture_of_the_modules_is_that_of_the_code() {
    let (path, picture) = (root().join("ARCHITECTURE.md"), picture());
    let text = std::fs::read_to_string(&path).expect("ARCHITECTURE.md");
    let (before, after) = text.split_once("<!-- picture -->\n").expect("the mark of the picture");
    let (shown, rest) = after.split_once("\n<!-- end of picture -->").expect("the end of the picture");
    if std::env::var_os("AGENTD_TEST_REWRITE").is_some() {
        let drawn = format!("{before}<!-- picture -->\n{picture}\n<!-- end of picture -->{rest}");
        std::fs::write(&path, drawn).expect("the picture is drawn");
        return;
    }
    assert_eq!(shown, picture, "draw it anew with `make module-graph`");
}
