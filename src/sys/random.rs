//! Fresh randomness from the kernel: seeds, which are printed, and ids, which tell ours from others'.

use std::fmt::Write;

use rand::TryRng;
use rand::rngs::SysRng;

/// A seed for a run that was given none; below 2^32, so that it is short to type and exact in any JSON reader.
pub fn fresh_seed() -> u64 {
    u64::from(u32::from_ne_bytes(bytes()))
}

/// 32 random hexadecimal digits.
pub fn fresh_id() -> String {
    let mut id = String::with_capacity(32);
    for byte in bytes::<16>() {
        write!(id, "{byte:02x}").expect("a String takes everything");
    }
    id
}

fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).expect("the kernel has random bytes once it has booted");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hexadecimal_and_differ() {
        let (one, other) = (fresh_id(), fresh_id());
        assert_ne!(one, other);
        assert!(one.len() == 32 && one.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
    }

    #[test]
    fn seeds_are_short_and_differ() {
        let seeds: std::collections::BTreeSet<u64> = (0..8).map(|_| fresh_seed()).collect();
        assert!(seeds.len() > 1 && seeds.iter().all(|seed| u32::try_from(*seed).is_ok()), "{seeds:?}");
    }
}
