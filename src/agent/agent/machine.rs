//! The built-in node properties of this machine (agreement protocol 3.3).

use std::{fs, path::Path};

use evenkeel_domain::policy::{
    Property, PropertyList,
    property::builtin::{ALLOW_PRIVILEGED, ARCH, CONTAINERIZED, CPU, HARDWARE_ID, MEMORY, OPERATING_SYSTEM},
};

/// Operating systems that the property may name.
const KNOWN_SYSTEMS: [&str; 8] =
    ["ubuntu", "debian", "raspbian", "rhel", "macos", "centos", "fedora", "suse"];

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// CPUs that the agent may use.
    pub cpus: u64,
    /// Memory in MB.
    pub memory_mb: u64,
    /// Architecture in Go's names.
    pub arch: &'static str,
    /// Serial number.
    pub hardware_id: String,
    /// Operating system, empty when unknown.
    pub system: String,
    /// True if the agent runs in a container.
    pub is_containerized: bool,
    /// IPv4 addresses, the loopback one excepted.
    pub addresses: Vec<String>,
}

impl Machine {
    /// Reads the properties of the machine. `made_up_id` replaces a missing serial number.
    pub fn read(made_up_id: &str) -> Self {
        Self {
            cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
            memory_mb: meminfo_mb(&read("/proc/meminfo"), "MemTotal:").unwrap_or_default(),
            arch: arch(std::env::consts::ARCH),
            hardware_id: hardware_id().unwrap_or_else(|| made_up_id.to_owned()),
            system: system(&read("/etc/os-release")),
            is_containerized: ["/.dockerenv", "/run/.containerenv"]
                .iter()
                .any(|path| Path::new(path).exists()),
            addresses: addresses(&read("/proc/net/fib_trie")),
        }
    }

    /// Returns the built-in properties.
    pub fn properties(&self) -> PropertyList {
        vec![
            Property::new(CPU, self.cpus),
            Property::new(MEMORY, self.memory_mb),
            Property::new(ARCH, self.arch),
            Property::new(HARDWARE_ID, self.hardware_id.as_str()),
            Property::new(OPERATING_SYSTEM, self.system.as_str()),
            Property::new(CONTAINERIZED, self.is_containerized),
            Property::new(ALLOW_PRIVILEGED, false),
        ]
        .into()
    }
}

/// Reads a file of the system; empty when it has none.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns a size of `/proc/meminfo` in MB; `name` ends with a colon.
pub(crate) fn meminfo_mb(meminfo: &str, name: &str) -> Option<u64> {
    let size = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = size.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes / 1024)
}

fn arch(rust_name: &'static str) -> &'static str {
    match rust_name {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

fn hardware_id() -> Option<String> {
    let serial = read("/sys/class/dmi/id/product_serial");
    let board = read("/proc/cpuinfo");
    let from_board = || {
        board.lines().find_map(|line| Some(line.strip_prefix("Serial")?.split_once(':')?.1.trim().to_owned()))
    };
    Some(serial.trim().to_owned())
        .filter(|serial| !serial.is_empty())
        .or_else(from_board)
        .filter(|id| !id.is_empty())
}

fn system(os_release: &str) -> String {
    let id = os_release.lines().find_map(|line| line.strip_prefix("ID=")).unwrap_or_default();
    let id = id.trim_matches('"').to_lowercase();
    if KNOWN_SYSTEMS.contains(&id.as_str()) { id } else { String::new() }
}

/// Returns the local addresses of the routing table: each is followed by a line that marks it as a host's own.
fn addresses(fib_trie: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut previous = "";
    for line in fib_trie.lines() {
        let line = line.trim();
        if let (true, Some(address)) = (line == "/32 host LOCAL", previous.strip_prefix("|-- "))
            && !address.starts_with("127.")
            && !found.iter().any(|known| known == address)
        {
            found.push(address.to_owned());
        }
        previous = line;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_has_all_properties_that_its_version_promises() {
        let machine = Machine::read("made-up");
        assert!(machine.cpus > 0 && machine.memory_mb > 0);
        assert_eq!(machine.properties().len(), 7);
        assert!(machine.properties().validate().is_ok());
    }

    #[test]
    fn system_files_are_read() {
        assert_eq!(meminfo_mb("MemTotal:        2048000 kB\nMemFree: 1 kB\n", "MemTotal:"), Some(2000));
        assert_eq!(system("NAME=x\nID=\"ubuntu\"\n"), "ubuntu");
        assert_eq!(system("ID=plan9\n"), "");
        let trie = "  |-- 10.0.0.5\n     /32 host LOCAL\n  |-- 127.0.0.1\n     /32 host LOCAL\n  |-- 10.0.0.0\n     /32 link BROADCAST\n";
        assert_eq!(addresses(trie), ["10.0.0.5"]);
    }
}
