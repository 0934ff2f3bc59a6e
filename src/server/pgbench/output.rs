//! What pgbench prints and logs, of every version.

/// The figures of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Output {
    pub(super) transactions: u64,
    pub(super) failed: u64,
    pub(super) tps: f64,
}

/// Before 14 a run has two rates; this is the one that later versions print.
const WITHOUT_CONNECTING: [&str; 2] =
    ["without initial connection time", "excluding connections establishing"];

impl Output {
    /// Nothing where a figure is missing, or where clients gave up: such a rate is not that of all.
    pub(super) fn read(text: &str) -> Option<Self> {
        let behind = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
        let number = |text: &str| -> Option<u64> {
            let digits = text.trim().split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok()
        };
        let mut tps = text.lines().filter(|line| WITHOUT_CONNECTING.iter().any(|words| line.contains(words)));
        let tps = tps.find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())?;
        Some(Self {
            transactions: number(behind("number of transactions actually processed:")?)?,
            failed: behind("number of failed transactions:").and_then(number).unwrap_or(0),
            tps,
        })
    }
}

/// The latency in a line of the log, `client transaction time …` with the time in microseconds; a transaction that was
/// skipped or failed has a word in its place.
pub(super) fn latency_ns(line: &str) -> Option<u64> {
    line.split(' ').nth(2)?.parse::<u64>().ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_its_rate_and_its_count() {
        for (text, expected) in [
            (
                "transaction type: <builtin: TPC-B (sort of)>\nnumber of transactions actually processed: 1834\n\
                 number of failed transactions: 3 (0.163%)\nlatency average = 27.3 ms\ninitial connection time = 8.7 ms\n\
                 tps = 183.066 (without initial connection time)\n",
                Some(Output { transactions: 1834, failed: 3, tps: 183.066 }),
            ),
            (
                "number of transactions actually processed: 5000/5000\ntps = 84.1 (including connections establishing)\n\
                 tps = 85.2 (excluding connections establishing)\n",
                Some(Output { transactions: 5000, failed: 0, tps: 85.2 }),
            ),
            ("number of transactions actually processed: 0\n", None),
            ("", None),
        ] {
            assert_eq!(Output::read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_line_of_the_log_has_its_latency_in_microseconds() {
        assert_eq!(latency_ns("0 199 2241 0 1175850568 995598"), Some(2_241_000));
        assert_eq!(latency_ns("0 199 skipped 0 1175850568 995598"), None);
        assert_eq!(latency_ns("3 7 failed 0 1499414498 84905 0"), None);
        assert_eq!(latency_ns(""), None);
    }
}
