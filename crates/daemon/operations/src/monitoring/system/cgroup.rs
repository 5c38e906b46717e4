//! Resource limits of a container or a system service: control groups of both versions, as described in `cgroups(7)`
//! and the kernel documentation.
//!
//! A limit of a group applies to all groups below it, so the lowest limit on the path to the root counts. In a
//! container that does not see its parent groups, the path reported by the kernel does not exist, and the mounted root
//! is the container's own group.

use std::path::{Path, PathBuf};

/// Reads a file; returns `None` if it does not exist.
pub(super) type ReadFile<'r> = &'r dyn Fn(&Path) -> Option<String>;

/// Mount point of the control groups.
const MOUNT: &str = "/sys/fs/cgroup";

/// Folders of the group of this process, from its own to the root.
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
    /// Quota as a number of processors.
    pub(super) cores: f64,
    /// Processor time used by the group since its creation, in microseconds.
    pub(super) used_micros: u64,
}

/// Returns the groups of a controller in order of precedence. `table` is the content of `/proc/self/cgroup`.
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
        found.extend(
            mounts.into_iter().map(|mount| Group { folders: ancestors_within(Path::new(&mount), path), is_v2 }),
        );
    }
    found
}

fn ancestors_within(mount: &Path, path: &str) -> Vec<PathBuf> {
    let own = mount.join(path.trim_start_matches('/'));
    // Paths above the mount point do not belong to the groups.
    let is_below = own.components().all(|part| part != std::path::Component::ParentDir);
    let own = if is_below { own } else { mount.to_path_buf() };
    own.ancestors().take_while(|folder| folder.starts_with(mount)).map(Path::to_path_buf).collect()
}

/// Returns the lowest memory limit and the usage of its group; `None` if there is none.
pub(super) fn memory_limit(table: &str, read: ReadFile<'_>) -> Option<MemoryLimit> {
    let of_folder = |folder: &PathBuf, is_v2: bool| {
        let (limit, usage, cache) = if is_v2 {
            ("memory.max", "memory.current", "inactive_file")
        } else {
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        };
        let number = |name: &str| read(&folder.join(name))?.trim().parse::<u64>().ok();
        // `max` does not parse as a number.
        let limit = number(limit)?;
        let cache = read(&folder.join("memory.stat")).and_then(|stat| parse_stat(&stat, cache));
        // Cached pages are reclaimed on demand.
        Some(MemoryLimit { limit, used: number(usage)?.saturating_sub(cache.unwrap_or_default()) })
    };
    let groups = groups(table, "memory");
    let limits = groups.iter().flat_map(|group| group.folders.iter().filter_map(|at| of_folder(at, group.is_v2)));
    limits.min_by_key(|limit| limit.limit)
}

/// Returns the lowest processor quota and the time used by its group; `None` if there is none.
pub(super) fn cpu_limit(table: &str, read: ReadFile<'_>) -> Option<CpuLimit> {
    let mut lowest: Option<CpuLimit> = None;
    for group in groups(table, "cpu") {
        for (index, folder) in group.folders.iter().enumerate() {
            let Some(cores) = quota(folder, group.is_v2, read) else { continue };
            let used_micros = if group.is_v2 {
                read(&folder.join("cpu.stat")).and_then(|stat| parse_stat(&stat, "usage_usec"))
            } else {
                used_micros_v1(table, folder, index, read)
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

/// In version 1 the `cpuacct` controller counts the time in nanoseconds; it is often mounted together with `cpu`.
fn used_micros_v1(table: &str, folder: &Path, index: usize, read: ReadFile<'_>) -> Option<u64> {
    let v1_groups = groups(table, "cpuacct").into_iter().filter(|group| !group.is_v2);
    let elsewhere = v1_groups.filter_map(|group| group.folders.get(index).cloned());
    let mut folders = std::iter::once(folder.to_path_buf()).chain(elsewhere);
    let nanos: u64 = folders.find_map(|folder| read(&folder.join("cpuacct.usage")))?.trim().parse().ok()?;
    Some(nanos / 1_000)
}

/// Returns the number in a line `name number`.
fn parse_stat(stat: &str, name: &str) -> Option<u64> {
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
    fn v2_container_has_its_own_limits() {
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
    fn lowest_limit_on_the_path_applies() {
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
    fn v1_container_sees_its_group_at_the_root() {
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
    fn absent_limit_is_none() {
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
        assert_eq!(ancestors_within(Path::new(MOUNT), "/../../etc"), [Path::new(MOUNT)]);
    }
}
