use super::find::places;
use super::*;

/// A directory with files, as the kernel would show a group.
fn group(path: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(path).unwrap();
    for (name, text) in files {
        fs::write(path.join(name), text).unwrap();
    }
}

fn mounts(lines: &[(&Path, &str, &str, &str)]) -> String {
    let line = |(at, root, kind, options): &(&Path, &str, &str, &str)| {
        format!("30 1 0:2{} {root} {} rw,relatime shared:9 - {kind} cgroup {options}\n", root.len(), at.display())
    };
    lines.iter().map(line).collect()
}

const BOUNDS: Bounds =
    Bounds { memory_bytes: 64 << 20, processes: 16, open_files: 8, file_bytes: 1, disk_bytes: 1, files: 1 };

#[test]
fn version_one_is_found_where_the_daemon_is() {
    let root = tempfile::tempdir().unwrap();
    let (memory, pids) = (root.path().join("memory"), root.path().join("pids"));
    fs::create_dir_all(memory.join("service")).unwrap();
    fs::create_dir_all(&pids).unwrap();
    // A container sees its own group as the root of what is mounted.
    let mounts = mounts(&[(&memory, "/docker/1", "cgroup", "rw,memory"), (&pids, "/", "cgroup", "rw,pids")]);
    let found = places(&mounts, "8:pids:/\n4:memory:/docker/1/service\n0::/\n").unwrap();
    let directories: Vec<_> = found.iter().map(|place| place.directory.clone()).collect();
    assert_eq!(directories, [memory.join("service"), pids]);
    assert!(found.iter().all(|place| place.version == Version::One));
}

#[test]
fn a_group_of_version_two_is_divided_only_where_it_was_left_to_the_daemon() {
    let root = tempfile::tempdir().unwrap();
    let service = root.path().join("system.slice/agentd.service");
    group(root.path(), &[("cgroup.controllers", "cpu memory pids")]);
    group(&service, &[("cgroup.controllers", "memory pids"), ("cgroup.subtree_control", ""), ("cgroup.procs", "")]);
    let mounts = mounts(&[(root.path(), "/", "cgroup2", "rw,nsdelegate")]);
    let own = "0::/system.slice/agentd.service\n";
    let missing = places(&mounts, own).unwrap_err();
    assert!(missing.reason.contains("is not left to it") && missing.remedy.is_some(), "{missing:?}");
    // Somebody divided it already, so there is no process in it.
    fs::write(service.join("cgroup.subtree_control"), "memory pids").unwrap();
    let found = places(&mounts, own).unwrap();
    assert_eq!((found[0].version, &found[0].directory), (Version::Two, &service));
    // Without the controller there is nothing to be had.
    fs::write(service.join("cgroup.controllers"), "pids").unwrap();
    let missing = places(&mounts, own).unwrap_err();
    assert!(missing.reason.contains("may not bound memory"), "{missing:?}");
    assert!(places("", own).unwrap_err().reason.contains("not mounted"));
    assert!(places("", "").is_err());
}

#[test]
fn others_in_the_group_of_the_daemon_keep_it_whole() {
    let root = tempfile::tempdir().unwrap();
    let own = format!("1\n{}\n", std::process::id());
    let files = [("cgroup.controllers", "memory pids"), ("cgroup.subtree_control", ""), ("cgroup.procs", own.as_str())];
    group(root.path(), &files);
    let mounts = mounts(&[(root.path(), "/", "cgroup2", "rw")]);
    let missing = places(&mounts, "0::/\n").unwrap_err();
    assert!(missing.reason.contains("holds processes of others"), "{missing:?}");
    assert_eq!(fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap(), "");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), files.len());
}

#[test]
fn bounds_are_written_as_each_version_wants_them() {
    let root = tempfile::tempdir().unwrap();
    let bounded = |version, controllers, files: &[&str]| {
        let directory = tempfile::tempdir_in(root.path()).unwrap();
        let files: Vec<_> = files.iter().map(|name| (*name, "")).collect();
        group(directory.path(), &files);
        let place = Place { version, controllers, directory: root.path().to_owned(), own: root.path().to_owned() };
        place.bound(directory.path(), &BOUNDS).unwrap();
        files.iter().map(|(name, _)| fs::read_to_string(directory.path().join(name)).unwrap()).collect::<Vec<_>>()
    };
    let wall = ((64 << 20) + (8 << 20)).to_string();
    let half = (32 << 20).to_string();
    let one = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes"];
    assert_eq!(bounded(Version::One, &["memory"], &one), [wall.as_str(), &wall, &half]);
    // What a kernel does not have is left out.
    assert_eq!(bounded(Version::One, &["memory"], &one[..1]), [wall.as_str()]);
    let two = ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max"];
    assert_eq!(bounded(Version::Two, &["memory", "pids"], &two), [wall.as_str(), "0", "1", "48"]);
}

#[test]
fn only_groups_of_dead_daemons_of_this_namespace_are_cleared() {
    let root = tempfile::tempdir().unwrap();
    let Owner { namespace, process, started } = Owner::own();
    let kept = [
        name(),
        format!("{PREFIX}{}-{process}-{}-0", namespace + 1, started + 1),
        "agentd-run-of-somebody".to_owned(),
        "other".to_owned(),
    ];
    let left = format!("{PREFIX}{namespace}-{process}-{}-0", started + 1);
    for name in kept.iter().chain([&left]) {
        fs::create_dir(root.path().join(name)).unwrap();
    }
    let place = Place {
        version: Version::Two,
        controllers: &["memory"],
        directory: root.path().into(),
        own: root.path().into(),
    };
    Groups { places: vec![place], leftovers: Mutex::default() }.clear();
    assert!(!root.path().join(left).exists());
    assert!(kept.iter().all(|name| root.path().join(name).exists()));
}

#[test]
fn what_cannot_be_removed_yet_is_removed_later() {
    let root = tempfile::tempdir().unwrap();
    let busy = root.path().join("busy");
    fs::create_dir_all(busy.join("process")).unwrap();
    fs::write(busy.join("cgroup.kill"), "").unwrap();
    let groups = Arc::new(Groups { places: Vec::new(), leftovers: Mutex::default() });
    groups.remove(vec![busy.clone()]);
    assert!(busy.exists());
    // Whoever is still in it is ended.
    assert_eq!(fs::read_to_string(busy.join("cgroup.kill")).unwrap(), "1");
    fs::remove_file(busy.join("cgroup.kill")).unwrap();
    fs::remove_dir(busy.join("process")).unwrap();
    drop(groups);
    assert!(!busy.exists());
}
