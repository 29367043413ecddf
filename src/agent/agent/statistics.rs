//! The statistics of this machine, by which the hub ranks nodes (orchestration 1.7, A3).

use evenkeel_wire::exchange::node_report::NodeStatistics;

use crate::machine::{meminfo_mb, read};

/// Change of a load average that is reported.
const LOAD_STEP: f64 = 0.05;
/// Change of free space that is reported, as a fraction of the total.
const SPACE_STEP: u64 = 20;

/// Reads the statistics of the machine; values that the system does not report are left out.
pub(crate) fn current() -> NodeStatistics {
    of_files(&read("/proc/loadavg"), &read("/proc/meminfo"))
}

fn of_files(loadavg: &str, meminfo: &str) -> NodeStatistics {
    let mut loads = loadavg.split_whitespace().map(|load| load.parse().ok());
    let mut load = || loads.next().flatten();
    NodeStatistics {
        load1: load(),
        load5: load(),
        load15: load(),
        mem_total_mb: meminfo_mb(meminfo, "MemTotal:"),
        mem_avail_mb: meminfo_mb(meminfo, "MemAvailable:"),
        swap_total_mb: meminfo_mb(meminfo, "SwapTotal:"),
        swap_avail_mb: meminfo_mb(meminfo, "SwapFree:"),
        address: None,
        addresses: Vec::new(),
        at: None,
    }
}

/// Returns whether statistics differ enough from the reported ones to change the ranking of nodes.
pub(crate) fn differ(one: &NodeStatistics, other: &NodeStatistics) -> bool {
    let loads_differ = match (one.load15, other.load15) {
        (Some(one), Some(other)) => (one - other).abs() >= LOAD_STEP,
        (one, other) => one.is_some() != other.is_some(),
    };
    let spaces_differ = |total: Option<u64>, one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => one.abs_diff(other) > total.unwrap_or_default() / SPACE_STEP,
        (one, other) => one != other,
    };
    loads_differ
        || one.address != other.address
        || one.addresses != other.addresses
        || one.mem_total_mb != other.mem_total_mb
        || one.swap_total_mb != other.swap_total_mb
        || spaces_differ(one.mem_total_mb, one.mem_avail_mb, other.mem_avail_mb)
        || spaces_differ(one.swap_total_mb, one.swap_avail_mb, other.swap_avail_mb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_files_are_read() {
        let meminfo = "MemTotal:  4096000 kB\nMemFree: 5 kB\nMemAvailable: 2048000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n";
        let found = of_files("0.25 0.50 1.50 2/345 6789\n", meminfo);
        let expected = NodeStatistics {
            load1: Some(0.25),
            load5: Some(0.5),
            load15: Some(1.5),
            mem_total_mb: Some(4000),
            mem_avail_mb: Some(2000),
            swap_total_mb: Some(0),
            swap_avail_mb: Some(0),
            address: None,
            addresses: Vec::new(),
            at: None,
        };
        assert_eq!(found, expected);
        assert_eq!(of_files("", ""), NodeStatistics::default());
        assert!(current().load15.is_some() && current().mem_total_mb.is_some());
    }

    #[test]
    fn small_differences_are_not_worth_a_report() {
        let of = |load15, mem_avail_mb| NodeStatistics {
            load15: Some(load15),
            mem_total_mb: Some(4000),
            mem_avail_mb: Some(mem_avail_mb),
            ..NodeStatistics::default()
        };
        assert!(!differ(&of(0.5, 2000), &of(0.52, 2200)));
        assert!(differ(&of(0.5, 2000), &of(0.56, 2000)));
        assert!(differ(&of(0.5, 2000), &of(0.5, 1799)));
        assert!(differ(&of(0.5, 2000), &NodeStatistics::default()));
    }
}
