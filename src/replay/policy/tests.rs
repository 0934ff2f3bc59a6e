use proptest::prelude::*;

use super::*;

fn policy(text: &str) -> Policy {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> PolicyError {
    text.parse::<Policy>().expect_err(text)
}

#[test]
fn every_row_is_its_own_canonical_text_and_means_something() {
    for row in table::ROWS {
        let parsed = policy(row.name);
        assert_eq!(parsed.to_string(), row.name);
        assert_eq!(parsed.axes(), &row.axes);
        assert!(rules::broken(&row.axes, &[]).is_none(), "{}", row.name);
    }
}

#[test]
fn promises_of_the_named_policies_are_the_contract() {
    let of = |promise| {
        let listed = list().into_iter().filter(|row| row.promise == promise);
        listed.map(|row| row.name).collect::<Vec<_>>()
    };
    assert_eq!(
        of(Promise::Tree),
        [
            "immediate",
            "deferred",
            "reflink",
            "direct",
            "aio",
            "o-dsync",
            "syncfs",
            "uring",
            "threads",
            "reverse"
        ]
    );
    assert_eq!(of(Promise::Entries), ["pg-9.0", "pg-9.3", "pg-9.6", "pg-16", "pg-18-clone", "initdb-sync"]);
    assert_eq!(of(Promise::Data), ["pg-8.4", "dpkg"]);
    assert_eq!(of(Promise::Nothing), ["never", "git-batch"]);
}

#[test]
fn hints_and_direct_io_count_for_nothing_and_syncfs_for_everything() {
    for (text, promise) in [
        ("never+hint=write-and-wait+dirs=own+parent", Promise::Nothing),
        ("direct+sync=never", Promise::Nothing),
        ("aio+dirs=own", Promise::Entries),
        ("git-batch+dirs=own+parent", Promise::Nothing),
        ("syncfs+dirs=own", Promise::Tree),
        ("o-dsync+dirs=none", Promise::Data),
        ("pg-8.4+dirs=own", Promise::Entries),
        ("deferred+call=fdatasync", Promise::Tree),
    ] {
        assert_eq!(policy(text).promise(), promise, "{text}");
    }
}

#[test]
fn every_server_version_is_an_alias_of_the_row_that_replays_it() {
    for (versions, row) in [
        ("8.1 8.2 8.3 8.4 8.4.22", "pg-8.4"),
        ("9.0 9.0.23 9.1 9.2 9.2.24", "pg-9.0"),
        ("9.3 9.4 9.4.26 9.5 9.6.0 9.6.5 10.0", "pg-9.3"),
        ("9.6 9.6.6 9.6.24 10 10.1 10.23 11 12 13 14 15 15.0 15.18", "pg-9.6"),
        ("16 16.14 17 17.0 18 18.4 19", "pg-16"),
        ("18-clone 18.4-clone 19-clone", "pg-18-clone"),
    ] {
        for version in versions.split(' ') {
            assert_eq!(policy(&format!("pg-{version}")).to_string(), row, "{version}");
        }
    }
    for never_released in ["pg-8.0", "pg-8.5", "pg-9.7", "pg-9", "pg-99", "pg-17-clone", "pg-15.x", "pg-"] {
        assert!(matches!(error(never_released), PolicyError::UnknownPolicy { .. }), "{never_released}");
    }
}

#[test]
fn a_canonical_text_has_the_axes_in_order_and_drops_those_of_the_base() {
    for (text, canonical) in [
        ("pg-15+hint=none", "pg-9.6+hint=none"),
        ("deferred+dirs=own+hint=none", "deferred+hint=none+dirs=own"),
        ("deferred+hint=sync-file-range+every=1024kB", "deferred"),
        ("deferred+every=65536", "deferred+every=64KiB"),
        ("pg-8.4+dirs=own+parent", "pg-8.4+dirs=own+parent"),
        ("deferred+every=100000", "deferred+every=100000"),
        ("deferred+every=32MB+jobs=8", "deferred+every=32MiB+jobs=8"),
        ("immediate+scope=directory", "immediate+scope=directory"),
    ] {
        assert_eq!(policy(text).to_string(), canonical);
    }
}

#[test]
fn errors_name_what_was_typed_and_what_may_have_been_meant() {
    for (text, message, hint) in [
        (
            "imediate",
            "unknown policy \"imediate\"",
            "did you mean \"immediate\"? fsynclab copy --list-policies",
        ),
        ("xyz", "unknown policy \"xyz\"", "fsynclab copy --list-policies"),
        ("deferred+hnt=none", "unknown axis \"hnt\"", "did you mean \"hint\"? axes: copy, open, "),
        (
            "deferred+sync=aftr",
            "unknown value \"aftr\" of axis \"sync\"",
            "did you mean \"after\"? sync takes never (the default), each, ",
        ),
        (
            "deferred+every=4kB",
            "unknown value \"4kB\" of axis \"every\"",
            "every takes a size from 64KiB (default: 1MiB)",
        ),
        (
            "deferred+jobs=0",
            "unknown value \"0\" of axis \"jobs\"",
            "jobs takes a number from 1 (the default) to 1024",
        ),
        ("deferred+hint", "\"hint\" is not AXIS=VALUE", "a policy is NAME"),
    ] {
        let error = error(text);
        assert_eq!(error.to_string(), message);
        assert!(error.hint().is_some_and(|it| it.starts_with(hint)), "{text}: {:?}", error.hint());
    }
    assert_eq!(error("deferred+jobs=2+jobs=2").to_string(), "axis \"jobs\" is given twice");
    assert!(["", "+hint=none"].iter().all(|text| matches!(error(text), PolicyError::NoName { .. })));
}

#[test]
fn combinations_that_mean_nothing_are_refused() {
    for text in [
        "immediate+via=io-uring",
        "immediate+jobs=2",
        "never+jobs=2",
        "syncfs+call=fdatasync",
        "never+call=fdatasync",
        "never+order=inode",
        "git-batch+order=inode",
        "never+every=file",
        "deferred+hint=none+every=file",
        "immediate+settle=wait",
        "deferred+hint=write-and-wait+settle=wait",
        "immediate+hint=sync-file-range+settle=wait",
        "immediate+hint=sync-file-range+every=pass",
        "reflink+hint=sync-file-range",
        "direct+hint=fadvise",
        "o-dsync+hint=sync-file-range",
        "o-dsync+copy=reflink",
        "aio+open=o-dsync",
        "aio+sync=after",
        "pg-18-clone+hint=sync-file-range+every=64KiB",
    ] {
        assert!(matches!(error(text), PolicyError::Meaningless { .. }), "{text}");
    }
}

#[test]
fn needs_follow_from_the_axes() {
    let needs = |text: &str| policy(text).needs();
    assert_eq!(needs("deferred"), Needs::default());
    assert!(needs("never+sync=syncfs").whole_file_system_sync);
    assert!(needs("aio").aio && needs("aio").direct_io && !needs("aio").staged_source);
    assert!(needs("reflink").reflink && needs("reflink").staged_source);
    assert!(needs("immediate+copy=direct").direct_io);
    assert!(needs("pg-18-clone").staged_source);
    assert!(needs("pg-15+jobs=4+via=io-uring").io_uring);
}

proptest! {
    #[test]
    fn what_is_printed_parses_to_the_same_policy(
        row in 0..table::ROWS.len(),
        turns in proptest::collection::vec((0..Axis::ALL.len(), 0usize..8), 0..4),
    ) {
        let mut text = table::ROWS[row].name.to_owned();
        for (axis, value) in turns {
            let axis = Axis::ALL[axis];
            let values = match axis {
                Axis::Every => &["64KiB", "1MiB", "12345678", "file", "pass"],
                Axis::Jobs => &["1", "2", "1024"][..],
                _ => axis.values(),
            };
            text.extend(["+", axis.name(), "=", values[value % values.len()]]);
        }
        if let Ok(parsed) = text.parse::<Policy>() {
            let printed = parsed.to_string();
            prop_assert_eq!(printed.parse::<Policy>(), Ok(parsed));
        }
    }

    #[test]
    fn no_text_is_too_odd_to_be_judged(text in ".*") {
        if let Err(error) = text.parse::<Policy>() {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn without_a_journal_nothing_is_promised_for_a_syncfs_and_all_else_as_before() {
    for (text, promise) in [
        ("syncfs", Promise::Nothing),
        ("immediate+sync=syncfs", Promise::Nothing),
        ("immediate", Promise::Tree),
        ("pg-16", Promise::Entries),
        ("dpkg", Promise::Data),
    ] {
        let policy: Policy = text.parse().expect("a policy");
        assert_eq!(policy.promise_without_journal(), promise, "{text}");
    }
}
