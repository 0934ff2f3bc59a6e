//! Numbers as people read them: durations, sizes as PostgreSQL prints them, ratios.

/// A unit for a whole column, so that its numbers can be compared by eye.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    unit: &'static str,
    ns_each: f64,
    decimals: usize,
}

impl Scale {
    /// The unit in which the largest of a column's durations reads well.
    pub(super) fn for_largest(largest_ns: u64) -> Self {
        let (unit, ns_each) = match largest_ns {
            1_000_000_000.. => ("s", 1e9),
            1_000_000.. => ("ms", 1e6),
            _ => ("us", 1e3),
        };
        let decimals = match largest_ns as f64 / ns_each {
            ..10.0 => 2,
            ..100.0 if unit == "s" => 2,
            ..1000.0 => 1,
            _ => 0,
        };
        Self { unit, ns_each, decimals }
    }

    /// The number alone.
    pub(super) fn bare(self, ns: u64) -> String {
        format!("{:.*}", self.decimals, ns as f64 / self.ns_each)
    }

    /// The number with its unit.
    pub(super) fn with_unit(self, ns: u64) -> String {
        format!("{} {}", self.bare(ns), self.unit)
    }
}

/// One duration on its own, to two or three digits: `44 ms`, `6.9 ms`, `250 us`.
pub fn duration(ns: u64) -> String {
    let (unit, ns_each) = match ns {
        999_500_000.. => ("s", 1e9),
        999_500.. => ("ms", 1e6),
        1_000.. => ("us", 1e3),
        _ => ("ns", 1.0),
    };
    let value = ns as f64 / ns_each;
    let decimals = match (unit, value) {
        ("ns", _) => 0,
        ("s", ..9.995) => 2,
        (_, ..9.95) => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// Bytes as `pg_size_pretty` prints them: each unit up to 10240 of it, rounded half up.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "kB", "MB", "GB", "TB"];
    let mut unit = 0;
    let mut divisor = 1_u64;
    while unit + 1 < UNITS.len() && (bytes + divisor / 2) / divisor >= 10 * 1024 {
        unit += 1;
        divisor *= 1024;
    }
    format!("{} {}", (bytes + divisor / 2) / divisor, UNITS[unit])
}

/// Bytes in a time as MB/s of 1024 * 1024 bytes; `n/a MB/s` where there are none of either.
pub(super) fn throughput(bytes: u64, elapsed_ns: u64) -> String {
    if bytes == 0 || elapsed_ns == 0 {
        return "n/a MB/s".to_owned();
    }
    let rate = bytes as f64 / (1024.0 * 1024.0) / (elapsed_ns as f64 / 1e9);
    let decimals = match rate {
        ..0.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{rate:.decimals$} MB/s")
}

/// A ratio and its interval, all to the digits that matter to the smallest: `1.46, 1.11, 2.20` or `3.2, 2.9, 3.4`.
pub(super) fn ratios(values: [f64; 3]) -> [String; 3] {
    let decimals = match values.into_iter().fold(f64::INFINITY, f64::min) {
        ..1.995 => 2,
        ..9.95 => 1,
        _ => 0,
    };
    values.map(|value| format!("{value:.decimals$}"))
}

/// `1 round`, `7 rounds`.
pub(super) fn count(number: u64, noun: &str) -> String {
    let (stem, plural) = match noun.strip_suffix('y') {
        Some(stem) if number != 1 => (stem, "ies"),
        _ => (noun, if number == 1 { "" } else { "s" }),
    };
    format!("{number} {stem}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_column_has_one_unit() {
        let seconds = Scale::for_largest(7_440_000_000);
        assert_eq!(
            (seconds.with_unit(7_020_000_000), seconds.with_unit(20_000_000)),
            ("7.02 s".into(), "0.02 s".into())
        );
        assert_eq!(Scale::for_largest(31_240_000).with_unit(6_200_000), "6.2 ms");
        assert_eq!(Scale::for_largest(9_240_000).with_unit(240_000), "0.24 ms");
        assert_eq!(Scale::for_largest(512_000).with_unit(240_000), "240.0 us");
        assert_eq!(Scale::for_largest(0).with_unit(0), "0.00 us");
    }

    #[test]
    fn a_single_duration_keeps_two_or_three_digits() {
        let shown = [
            0,
            999,
            6_940,
            250_000,
            999_400,
            6_900_000,
            44_400_000,
            999_499_999,
            2_100_000_000,
            31_000_000_000,
        ]
        .map(duration);
        assert_eq!(
            shown,
            ["0 ns", "999 ns", "6.9 us", "250 us", "999 us", "6.9 ms", "44 ms", "999 ms", "2.10 s", "31 s"]
        );
    }

    #[test]
    fn sizes_are_those_of_pg_size_pretty() {
        // select pg_size_pretty(x::bigint) for each.
        let shown = [0, 1, 10_239, 10_240, 7_471_619, 10_485_247, 10_485_760, 164_625_767, 1 << 40].map(size);
        assert_eq!(
            shown,
            [
                "0 bytes",
                "1 bytes",
                "10239 bytes",
                "10 kB",
                "7297 kB",
                "10239 kB",
                "10 MB",
                "157 MB",
                "1024 GB"
            ]
        );
    }

    #[test]
    fn no_bytes_have_no_throughput() {
        assert_eq!(throughput(0, 1_000_000), "n/a MB/s");
        assert_eq!(throughput(7_471_619, 0), "n/a MB/s");
        assert_eq!(throughput(7_471_619, 2_210_000_000), "3.2 MB/s");
        assert_eq!(throughput(7_471_619, 20_000_000), "356 MB/s");
        assert_eq!(throughput(8_192, 1_000_000_000), "0.01 MB/s");
    }

    #[test]
    fn nouns_agree_with_their_number() {
        assert_eq!(count(1, "directory") + ", " + &count(2, "directory"), "1 directory, 2 directories");
        assert_eq!(count(0, "round") + ", " + &count(1, "round"), "0 rounds, 1 round");
    }
}
