//! Gives back the pages of the program's code that only the start needed.
//!
//! The system maps code in runs of 64 KiB around each instruction that is executed first. A start passes through most of the program once:
//! every route is registered and every option read. Afterwards a fraction of it runs, and is mapped again page by page from the cache of files.

/// Unmaps the code; returns the number of bytes of its mappings.
///
/// # Errors
/// When the mappings of the process cannot be read.
#[cfg(target_os = "linux")]
pub fn unmap_code() -> std::io::Result<usize> {
    let program = std::fs::read_link("/proc/self/exe")?;
    let mappings = std::fs::read_to_string("/proc/self/maps")?;
    let of_code = code_of(&mappings, &program.to_string_lossy());
    Ok(of_code.into_iter().filter(|(begin, end)| unmap(*begin, *end)).map(|(begin, end)| end - begin).sum())
}

/// Other systems keep what they mapped.
#[cfg(not(target_os = "linux"))]
pub fn unmap_code() -> std::io::Result<usize> {
    Ok(0)
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe function gives back pages of the program's own code")]
fn unmap(begin: usize, end: usize) -> bool {
    let address = std::ptr::with_exposed_provenance_mut(begin);
    // SAFETY: the range is a mapping of a file that is executed and cannot be written, so that its pages equal the file, and are read from
    // there again by whatever executes them.
    unsafe { libc::madvise(address, end - begin, libc::MADV_DONTNEED) == 0 }
}

/// Returns the ranges of addresses at which the file is mapped to be executed, and not to be written.
#[cfg(target_os = "linux")]
fn code_of(mappings: &str, program: &str) -> Vec<(usize, usize)> {
    let range = |line: &str| {
        let (addresses, rest) = line.split_once(' ')?;
        let (mode, _) = rest.split_once(' ')?;
        let (begin, end) = addresses.split_once('-')?;
        let is_code =
            mode == "r-xp" && line.split_once('/').is_some_and(|(_, path)| program == format!("/{path}"));
        let address = |text| usize::from_str_radix(text, 16).ok();
        is_code.then_some((address(begin)?, address(end)?))
    };
    mappings.lines().filter_map(range).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn code_is_what_the_program_executes_and_nothing_else() {
        let mappings = "\
            55b39d30d000-55b39f4ad000 r--p 00000000 fe:00 5341990                    /opt/even keel\n\
            55b39f4ad000-55b3a4170000 r-xp 0219f000 fe:00 5341990                    /opt/even keel\n\
            55b3a4170000-55b3a4429000 r--p 06e61000 fe:00 5341990                    /opt/even keel\n\
            55b3a4429000-55b3a442f000 rwxp 07119000 fe:00 5341990                    /opt/even keel\n\
            7f0000000000-7f0000001000 r-xp 00000000 fe:00 77                         /lib/libc.so.6\n\
            7f0000002000-7f0000003000 r-xp 00000000 00:00 0                          [vdso]\n";
        assert_eq!(code_of(mappings, "/opt/even keel"), [(0x55b3_9f4a_d000, 0x55b3_a417_0000)]);
        assert_eq!(code_of(mappings, "/opt/even keel (deleted)"), []);
    }

    #[test]
    fn program_goes_on_without_its_pages() {
        let mapped = unmap_code().expect("mappings");
        assert!(mapped > 100_000, "{mapped} bytes of code");
        assert_eq!((1..=100_u64).sum::<u64>(), 5_050);
    }
}
