//! Parsers of `/proc` files, as described in `proc(5)`.

/// Processor time since the machine started, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CpuTime {
    pub(super) busy: u64,
    pub(super) total: u64,
}

/// Parses `/proc/stat`: the sum over the processors whose numbers satisfy `is_ours`.
pub(super) fn cpu_time(stat: &str, is_ours: impl Fn(usize) -> bool) -> Option<CpuTime> {
    let mut sum = CpuTime::default();
    for line in stat.lines() {
        let Some((name, ticks)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' ')) else { continue };
        let Ok(number) = name.parse::<usize>() else { continue };
        if !is_ours(number) {
            continue;
        }
        // Fields: user nice system idle iowait irq softirq steal. Guest time is included in user and nice.
        let ticks: Vec<u64> = ticks.split_ascii_whitespace().take(8).map_while(|tick| tick.parse().ok()).collect();
        let (total, idle) = (ticks.iter().sum::<u64>(), ticks.get(3)? + ticks.get(4).copied().unwrap_or_default());
        sum.busy = sum.busy.saturating_add(total.saturating_sub(idle));
        sum.total = sum.total.saturating_add(total);
    }
    (sum.total > 0).then_some(sum)
}

/// Parses `/proc/meminfo`: total memory, and used memory that is not immediately reclaimable.
pub(super) fn memory(meminfo: &str) -> Option<(u64, u64)> {
    let total = kib_of(meminfo, "MemTotal")?;
    let available = kib_of(meminfo, "MemAvailable").or_else(|| kib_of(meminfo, "MemFree"))?;
    Some((total, total.saturating_sub(available)))
}

/// Returns the value of a line `name: number kB` in bytes.
pub(super) fn kib_of(text: &str, name: &str) -> Option<u64> {
    number_of(text, name).map(|kib| kib.saturating_mul(1024))
}

/// Returns the number of a line `name: number`.
pub(super) fn number_of(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

/// Parses `/proc/loadavg`: average number of running and waiting tasks over the last minute.
pub(super) fn load_1m(loadavg: &str) -> Option<f64> {
    loadavg.split_ascii_whitespace().next()?.parse().ok().filter(|load: &f64| load.is_finite())
}

/// Parses `/proc/<pid>/task/<tid>/children`.
pub(super) fn children(text: &str) -> impl Iterator<Item = u32> {
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  300 0 100 1000 50 0 10 0 0 0\n\
                        cpu0 200 0 60 400 20 0 10 5 90 0\n\
                        cpu1 100 0 40 600 30 0 0 0 0 0\n\
                        intr 1 2 3\nctxt 9\nbtime 1700000000\n";

    #[test]
    fn cpu_time_sums_only_allowed_processors() {
        assert_eq!(cpu_time(STAT, |_| true), Some(CpuTime { busy: 415, total: 1_465 }));
        assert_eq!(cpu_time(STAT, |number| number == 1), Some(CpuTime { busy: 140, total: 770 }));
        assert_eq!(cpu_time(STAT, |_| false), None);
        for bad in ["", "cpu0", "cpu0 1 2", "cpu0 x y z", "cpux 1 2 3 4"] {
            assert_eq!(cpu_time(bad, |_| true), None, "{bad}");
        }
    }

    #[test]
    fn used_memory_is_total_minus_available() {
        let text = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:   12000 kB\n";
        assert_eq!(memory(text), Some((16_000 * 1024, 4_000 * 1024)));
        assert_eq!(
            memory("MemTotal: 16 kB\nMemFree: 4 kB\n"),
            Some((16 * 1024, 12 * 1024)),
            "a kernel without MemAvailable"
        );
        assert_eq!(memory("MemTotal: 16 kB\n"), None);
        assert_eq!(memory("MemTotal: many kB\nMemFree: 4 kB\n"), None);
    }

    #[test]
    fn status_numbers_are_parsed() {
        let status = "Name:\tagentd\nVmRSS:\t   52340 kB\nThreads:\t17\nRssAnon: 3 kB\n";
        assert_eq!(kib_of(status, "VmRSS"), Some(52_340 * 1024));
        assert_eq!(number_of(status, "Threads"), Some(17));
        assert_eq!(number_of(status, "Thread"), None);
    }

    #[test]
    fn load_and_children_are_parsed() {
        assert_eq!(load_1m("0.52 0.58 0.59 1/602 12345\n"), Some(0.52));
        assert_eq!(load_1m("NaN"), None);
        assert_eq!(load_1m(""), None);
        assert_eq!(children("12 34 x 56 ").collect::<Vec<_>>(), [12, 34, 56]);
    }
}
