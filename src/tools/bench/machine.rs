//! The machine that the numbers are of, and what else it did when they were taken.

use std::fs;

use jiff::Timestamp;

/// One line: date, cores, processor, memory, system, load.
pub fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu = field(&cpu, "model name").unwrap_or("unknown processor");
    let memory = read("/proc/meminfo");
    let kib: f64 =
        field(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0.0);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("unknown");
    format!(
        "{}, {cores} cores ({cpu}), {:.0} GiB, Linux {}, load average before the run {load}",
        Timestamp::now().strftime("%Y-%m-%d %H:%M UTC"),
        kib / f64::from(1 << 20),
        kernel.trim(),
    )
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_system_are_found_by_name() {
        assert_eq!(field("a\t: 1\nmodel name\t: X 2\nmodel name : Y", "model name"), Some("X 2"));
        assert_eq!(field("a: 1", "b"), None);
    }
}
