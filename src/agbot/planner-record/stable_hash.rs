//! A hash that is the same on every machine.

/// Hashes a text to 64 bits, the same on every machine and in every build (FNV-1a).
///
/// Used for partitions and for detecting changed policies; never where an attacker gains by a collision.
pub fn stable_hash(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain(std::iter::once(0xff)) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_hash_keeps_parts_apart() {
        assert_ne!(stable_hash(&["ab", "c"]), stable_hash(&["a", "bc"]));
        assert_eq!(stable_hash(&["a"]), stable_hash(&["a"]));
    }
}
