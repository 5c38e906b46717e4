use super::find::locations;
use super::*;

/// Creates a directory with files, like the kernel's for a group.
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
fn version_one_group_of_the_daemon_is_found() {
    let root = tempfile::tempdir().unwrap();
    let (memory, pids) = (root.path().join("memory"), root.path().join("pids"));
    fs::create_dir_all(memory.join("service")).unwrap();
    fs::create_dir_all(&pids).unwrap();
    // A container sees its own group as the root of the mount.
    let mounts = mounts(&[(&memory, "/docker/1", "cgroup", "rw,memory"), (&pids, "/", "cgroup", "rw,pids")]);
    let found = locations(&mounts, "8:pids:/\n4:memory:/docker/1/service\n0::/\n").unwrap();
    let directories: Vec<_> = found.iter().map(|location| location.directory.clone()).collect();
    assert_eq!(directories, [memory.join("service"), pids]);
    assert!(found.iter().all(|location| location.version == Version::One));
}

#[test]
fn version_two_group_is_divided_only_if_delegated() {
    let root = tempfile::tempdir().unwrap();
    let service = root.path().join("system.slice/agentd.service");
    group(root.path(), &[("cgroup.controllers", "cpu memory pids")]);
    group(&service, &[("cgroup.controllers", "memory pids"), ("cgroup.subtree_control", ""), ("cgroup.procs", "")]);
    let mounts = mounts(&[(root.path(), "/", "cgroup2", "rw,nsdelegate")]);
    let own = "0::/system.slice/agentd.service\n";
    let missing = locations(&mounts, own).unwrap_err();
    assert!(missing.reason.contains("is not delegated to it") && missing.remedy.is_some(), "{missing:?}");
    // Already divided, so it contains no process.
    fs::write(service.join("cgroup.subtree_control"), "memory pids").unwrap();
    let found = locations(&mounts, own).unwrap();
    assert_eq!((found[0].version, &found[0].directory), (Version::Two, &service));
    // Unusable without the controller.
    fs::write(service.join("cgroup.controllers"), "pids").unwrap();
    let missing = locations(&mounts, own).unwrap_err();
    assert!(missing.reason.contains("does not control memory"), "{missing:?}");
    assert!(locations("", own).unwrap_err().reason.contains("not mounted"));
    assert!(locations("", "").is_err());
}

#[test]
fn group_with_other_processes_is_not_divided() {
    let root = tempfile::tempdir().unwrap();
    let own = format!("1\n{}\n", std::process::id());
    let files = [("cgroup.controllers", "memory pids"), ("cgroup.subtree_control", ""), ("cgroup.procs", own.as_str())];
    group(root.path(), &files);
    let mounts = mounts(&[(root.path(), "/", "cgroup2", "rw")]);
    let missing = locations(&mounts, "0::/\n").unwrap_err();
    assert!(missing.reason.contains("contains other processes"), "{missing:?}");
    assert_eq!(fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap(), "");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), files.len());
}

#[test]
fn limits_are_written_in_the_format_of_each_version() {
    let root = tempfile::tempdir().unwrap();
    let bounded = |version, controllers, files: &[&str]| {
        let directory = tempfile::tempdir_in(root.path()).unwrap();
        let files: Vec<_> = files.iter().map(|name| (*name, "")).collect();
        group(directory.path(), &files);
        let location =
            GroupLocation { version, controllers, directory: root.path().to_owned(), own: root.path().to_owned() };
        location.bound(directory.path(), &BOUNDS).unwrap();
        files.iter().map(|(name, _)| fs::read_to_string(directory.path().join(name)).unwrap()).collect::<Vec<_>>()
    };
    let wall = ((64 << 20) + (8 << 20)).to_string();
    let half = (32 << 20).to_string();
    let one = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes"];
    assert_eq!(bounded(Version::One, &["memory"], &one), [wall.as_str(), &wall, &half]);
    // Files that a kernel lacks are skipped.
    assert_eq!(bounded(Version::One, &["memory"], &one[..1]), [wall.as_str()]);
    let two = ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max"];
    assert_eq!(bounded(Version::Two, &["memory", "pids"], &two), [wall.as_str(), "0", "1", "48"]);
}

#[test]
fn only_groups_of_ended_daemons_of_this_namespace_are_removed() {
    let root = tempfile::tempdir().unwrap();
    let Owner { namespace, process, started } = Owner::own();
    let retained = [
        name(),
        format!("{PREFIX}{}-{process}-{}-0", namespace + 1, started + 1),
        "agentd-run-of-somebody".to_owned(),
        "other".to_owned(),
    ];
    let left_over = format!("{PREFIX}{namespace}-{process}-{}-0", started + 1);
    for name in retained.iter().chain([&left_over]) {
        fs::create_dir(root.path().join(name)).unwrap();
    }
    let location = GroupLocation {
        version: Version::Two,
        controllers: &["memory"],
        directory: root.path().into(),
        own: root.path().into(),
    };
    Groups { locations: vec![location], leftovers: Mutex::default() }.clear();
    assert!(!root.path().join(left_over).exists());
    assert!(retained.iter().all(|name| root.path().join(name).exists()));
}

#[test]
fn busy_group_is_removed_later() {
    let root = tempfile::tempdir().unwrap();
    let busy = root.path().join("busy");
    fs::create_dir_all(busy.join("process")).unwrap();
    fs::write(busy.join("cgroup.kill"), "").unwrap();
    let groups = Arc::new(Groups { locations: Vec::new(), leftovers: Mutex::default() });
    groups.remove(vec![busy.clone()]);
    assert!(busy.exists());
    // Remaining processes are killed.
    assert_eq!(fs::read_to_string(busy.join("cgroup.kill")).unwrap(), "1");
    fs::remove_file(busy.join("cgroup.kill")).unwrap();
    fs::remove_dir(busy.join("process")).unwrap();
    drop(groups);
    assert!(!busy.exists());
}
