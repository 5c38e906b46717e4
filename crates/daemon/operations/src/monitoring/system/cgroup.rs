//! What a container, or a service of the machine, may use at most: control groups of both versions, as `cgroups(7)`
//! and the kernel's documentation describe them.
//!
//! A limit of a group holds for all below it, so the lowest on the way up counts. Where a container does not see the
//! groups above its own, the path that the kernel tells leads nowhere, and the top of what is mounted is its own group.

use std::path::{Path, PathBuf};

/// Reads a file of a folder; `None` where there is none.
pub(super) type ReadFile<'r> = &'r dyn Fn(&Path) -> Option<String>;

/// Where the groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// The folders of this process's group, its own first, the top last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    folders: Vec<PathBuf>,
    is_v2: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemoryLimit {
    pub(super) limit: u64,
    pub(super) used: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CpuLimit {
    /// As many processors' time.
    pub(super) cores: f64,
    /// Time used by the group since it was made, in microseconds.
    pub(super) used_micros: u64,
}

/// The groups of one controller, in the order in which they are to be asked. `table` is `/proc/self/cgroup`.
fn groups(table: &str, controller: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for line in table.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let is_v2 = id == "0" && controllers.is_empty();
        let mounts = if is_v2 {
            vec![MOUNT.to_owned(), format!("{MOUNT}/unified")]
        } else if controllers.split(',').any(|one| one == controller) {
            vec![format!("{MOUNT}/{controller}"), format!("{MOUNT}/{controllers}")]
        } else {
            continue;
        };
        found.extend(mounts.into_iter().map(|mount| Group { folders: upwards(Path::new(&mount), path), is_v2 }));
    }
    found
}

fn upwards(mount: &Path, path: &str) -> Vec<PathBuf> {
    let own = mount.join(path.trim_start_matches('/'));
    // What lies above the mount is not the groups' any more.
    let is_below = own.components().all(|part| part != std::path::Component::ParentDir);
    let own = if is_below { own } else { mount.to_path_buf() };
    own.ancestors().take_while(|folder| folder.starts_with(mount)).map(Path::to_path_buf).collect()
}

/// The lowest limit on memory, with what the group that has it uses; `None` where there is none.
pub(super) fn memory_limit(table: &str, read: ReadFile<'_>) -> Option<MemoryLimit> {
    let of_folder = |folder: &PathBuf, is_v2: bool| {
        let (limit, usage, cache) = if is_v2 {
            ("memory.max", "memory.current", "inactive_file")
        } else {
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        };
        let number = |name: &str| read(&folder.join(name))?.trim().parse::<u64>().ok();
        // `max` is no number.
        let limit = number(limit)?;
        let cache = read(&folder.join("memory.stat")).and_then(|stat| value_of(&stat, cache));
        // What is only cached goes as soon as somebody needs it.
        Some(MemoryLimit { limit, used: number(usage)?.saturating_sub(cache.unwrap_or_default()) })
    };
    let groups = groups(table, "memory");
    let limits = groups.iter().flat_map(|group| group.folders.iter().filter_map(|at| of_folder(at, group.is_v2)));
    limits.min_by_key(|limit| limit.limit)
}

/// The lowest quota of processor time, with what the group that has it used; `None` where there is none.
pub(super) fn cpu_limit(table: &str, read: ReadFile<'_>) -> Option<CpuLimit> {
    let mut lowest: Option<CpuLimit> = None;
    for group in groups(table, "cpu") {
        for (place, folder) in group.folders.iter().enumerate() {
            let Some(cores) = quota(folder, group.is_v2, read) else { continue };
            let used_micros = if group.is_v2 {
                read(&folder.join("cpu.stat")).and_then(|stat| value_of(&stat, "usage_usec"))
            } else {
                used_v1(table, folder, place, read)
            };
            if let Some(used_micros) = used_micros
                && lowest.is_none_or(|lowest| cores < lowest.cores)
            {
                lowest = Some(CpuLimit { cores, used_micros });
            }
        }
    }
    lowest
}

fn quota(folder: &Path, is_v2: bool, read: ReadFile<'_>) -> Option<f64> {
    let (quota, period) = if is_v2 {
        let text = read(&folder.join("cpu.max"))?;
        let (quota, period) = text.trim().split_once(' ')?;
        (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
    } else {
        let number = |name: &str| read(&folder.join(name))?.trim().parse::<f64>().ok();
        (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
    };
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// Of version 1 another controller counts the time, in nanoseconds; it is often mounted together with `cpu`.
fn used_v1(table: &str, folder: &Path, place: usize, read: ReadFile<'_>) -> Option<u64> {
    let beside = groups(table, "cpuacct").into_iter().filter(|group| !group.is_v2);
    let elsewhere = beside.filter_map(|group| group.folders.get(place).cloned());
    let mut folders = std::iter::once(folder.to_path_buf()).chain(elsewhere);
    let nanos: u64 = folders.find_map(|folder| read(&folder.join("cpuacct.usage")))?.trim().parse().ok()?;
    Some(nanos / 1_000)
}

/// The number of a line `name number`.
fn value_of(stat: &str, name: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn files<const N: usize>(files: [(&str, &str); N]) -> impl Fn(&Path) -> Option<String> {
        let files: BTreeMap<PathBuf, String> =
            files.into_iter().map(|(path, text)| (Path::new(MOUNT).join(path), text.to_owned())).collect();
        move |path: &Path| files.get(path).cloned()
    }

    #[test]
    fn a_container_of_version_2_has_its_own_limits() {
        let read = files([
            ("memory.max", "536870912\n"),
            ("memory.current", "300000000\n"),
            ("memory.stat", "anon 1\ninactive_file 100000000\nactive_file 5\n"),
            ("cpu.max", "150000 100000\n"),
            ("cpu.stat", "usage_usec 12345\nuser_usec 9\n"),
        ]);
        let table = "0::/\n";
        assert_eq!(memory_limit(table, &read), Some(MemoryLimit { limit: 536_870_912, used: 200_000_000 }));
        assert_eq!(cpu_limit(table, &read), Some(CpuLimit { cores: 1.5, used_micros: 12_345 }));
    }

    #[test]
    fn the_lowest_limit_on_the_way_up_counts() {
        let read = files([
            ("system.slice/agentd.service/memory.max", "max\n"),
            ("system.slice/agentd.service/memory.current", "10\n"),
            ("system.slice/memory.max", "1000\n"),
            ("system.slice/memory.current", "700\n"),
            ("system.slice/cpu.max", "max 100000\n"),
            ("system.slice/agentd.service/cpu.max", "50000 100000\n"),
            ("system.slice/agentd.service/cpu.stat", "usage_usec 7\n"),
        ]);
        let table = "0::/system.slice/agentd.service\n";
        assert_eq!(memory_limit(table, &read), Some(MemoryLimit { limit: 1_000, used: 700 }));
        assert_eq!(cpu_limit(table, &read), Some(CpuLimit { cores: 0.5, used_micros: 7 }));
    }

    #[test]
    fn a_container_of_version_1_sees_its_group_at_the_top() {
        let read = files([
            ("memory/memory.limit_in_bytes", "1000\n"),
            ("memory/memory.usage_in_bytes", "900\n"),
            ("memory/memory.stat", "inactive_file 1\ntotal_inactive_file 300\n"),
            ("cpu,cpuacct/cpu.cfs_quota_us", "200000\n"),
            ("cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("cpu,cpuacct/cpuacct.usage", "5000000\n"),
        ]);
        let table = "4:memory:/docker/0123\n1:cpu,cpuacct:/docker/0123\n";
        assert_eq!(memory_limit(table, &read), Some(MemoryLimit { limit: 1_000, used: 600 }));
        assert_eq!(cpu_limit(table, &read), Some(CpuLimit { cores: 2.0, used_micros: 5_000 }));
        let read = files([
            ("cpu/cpu.cfs_quota_us", "50000\n"),
            ("cpu/cpu.cfs_period_us", "100000\n"),
            ("cpuacct/cpuacct.usage", "9000\n"),
        ]);
        let table = "2:cpuacct:/\n1:cpu:/\n";
        assert_eq!(cpu_limit(table, &read), Some(CpuLimit { cores: 0.5, used_micros: 9 }));
    }

    #[test]
    fn no_limit_is_none() {
        let read = files([
            ("memory.max", "max\n"),
            ("memory.current", "5\n"),
            ("cpu.max", "max 100000\n"),
            ("cpu/cpu.cfs_quota_us", "-1\n"),
            ("cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        for table in ["0::/\n", "1:cpu:/\n0::/\n", "", "nonsense", "0::/../../etc\n"] {
            assert_eq!(memory_limit(table, &read), None, "{table}");
            assert_eq!(cpu_limit(table, &read), None, "{table}");
        }
        assert_eq!(upwards(Path::new(MOUNT), "/../../etc"), [Path::new(MOUNT)]);
    }
}
