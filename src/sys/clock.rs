//! CLOCK_MONOTONIC, and the date for a document's head.
#![expect(
    unsafe_code,
    reason = "the clock is read twice a call inside a trial: the bare vdso call, no detour"
)]

/// Nanoseconds of CLOCK_MONOTONIC: never steps, not even when somebody sets the wall clock.
///
/// glibc answers from the vdso, without entering the kernel: about 25 ns.
#[inline]
pub fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec of ours. The call cannot fail: Linux always has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// The wall clock as UTC, RFC 3339, whole seconds.
pub fn utc_now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_steps_back() {
        let mut before = now_ns();
        for _ in 0..1000 {
            let now = now_ns();
            assert!(now >= before);
            before = now;
        }
    }

    #[test]
    fn the_date_is_utc_in_whole_seconds() {
        let date = utc_now();
        assert_eq!((date.len(), &date[10..11], &date[19..]), (20, "T", "Z"));
    }
}
