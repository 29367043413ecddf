//! Facts about the machine that the command line runs on.

/// Returns the architecture as service definitions name it.
pub const ARCH: &str = arch_word(std::env::consts::ARCH);

const fn arch_word(arch: &'static str) -> &'static str {
    match arch.as_bytes() {
        b"x86_64" => "amd64",
        b"aarch64" => "arm64",
        b"powerpc64" => "ppc64le",
        b"x86" => "386",
        _ => arch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_have_the_words_of_service_definitions() {
        assert_eq!(
            [arch_word("x86_64"), arch_word("aarch64"), arch_word("riscv64")],
            ["amd64", "arm64", "riscv64"]
        );
    }
}
