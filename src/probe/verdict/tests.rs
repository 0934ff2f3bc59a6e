//! Each argument of the reference cases gives the verdict that was argued there.

use super::*;

/// A disk that turns, on SATA, with its cache on and flushes sent.
fn disk(ops_per_sec: f64) -> Facts {
    Facts {
        left_out_by: Vec::new(),
        kernel_view: Some(KernelView::WriteBack),
        drive_view: Some(DriveView::On),
        rotational: Some(true),
        attachment: Attachment::Direct,
        claimed_rpm: Some(7200),
        flushes_per_op: Some(1.0),
        fua: false,
        overwrite_ops_per_sec: Some(ops_per_sec),
        plateau_ops_per_sec: None,
        rates: Rates::default(),
    }
}

fn with(mut facts: Facts, change: impl FnOnce(&mut Facts)) -> Facts {
    change(&mut facts);
    facts
}

/// A disk whose cache is off, as the drive and the kernel say.
fn cache_off(ops_per_sec: f64) -> Facts {
    with(disk(ops_per_sec), |f| {
        f.drive_view = Some(DriveView::Off);
        f.kernel_view = Some(KernelView::WriteThrough);
        f.flushes_per_op = Some(0.0);
    })
}

/// The virtio disk of the reference run: 11,000 syncs/s, `rotational` 1.
fn virtio() -> Facts {
    with(disk(11_000.0), |f| {
        f.attachment = Attachment::Virtual;
        f.drive_view = None;
        f.claimed_rpm = None;
    })
}

fn flash() -> Facts {
    with(disk(7300.0), |f| {
        f.rotational = Some(false);
        f.claimed_rpm = None;
    })
}

#[track_caller]
fn check(cases: &[(&str, Facts, Code)]) {
    for (case, facts, expected) in cases {
        let verdict = judge(facts);
        let reasons: Vec<String> = verdict.reasons.iter().map(Reason::to_string).collect();
        assert_eq!(verdict.code, *expected, "{case}: {reasons:?}");
        assert!(!reasons.is_empty() && reasons.iter().all(|reason| !reason.is_empty()), "{case}");
    }
}

#[test]
fn a_platter_is_held_to_its_turns() {
    let wd_black = with(disk(2564.0), |f| f.claimed_rpm = Some(7200));
    let claims_5400 = with(disk(124.2), |f| f.claimed_rpm = Some(5400));
    let ten_thousand = |ops| with(disk(ops), |f| f.claimed_rpm = Some(10_000));
    check(&[
        ("P2, ext3, cache on", disk(6469.36), Code::AnsweredFromMemory),
        ("P2, LVM, cache on", disk(6502.67), Code::AnsweredFromMemory),
        (
            "P2, flushes not counted in 2009",
            with(disk(6469.36), |f| f.flushes_per_op = None),
            Code::AnsweredFromMemory,
        ),
        ("P2, ext3, cache off", with(disk(106.05), |f| f.drive_view = Some(DriveView::Off)), Code::Honoured),
        ("P2, LVM, cache off", with(disk(112.78), |f| f.drive_view = Some(DriveView::Off)), Code::Honoured),
        ("P7, 332 commits at 10,000 rpm", ten_thousand(332.0), Code::AnsweredFromMemory),
        ("P7, 435 commits at 10,000 rpm", ten_thousand(435.0), Code::AnsweredFromMemory),
        ("160 syncs at 10,000 rpm", ten_thousand(160.0), Code::Honoured),
        ("X7, WD6001FZWX, 0.39 ms", wd_black, Code::AnsweredFromMemory),
        ("X7, WD140EDFZ, 8.05 ms, claims 5400", claims_5400.clone(), Code::Honoured),
        (
            "X7, the same with its plateau",
            with(claims_5400, |f| f.plateau_ops_per_sec = Some(119.8)),
            Code::Honoured,
        ),
        (
            "240 syncs claiming 5400",
            with(disk(240.0), |f| f.claimed_rpm = Some(5400)),
            Code::AnsweredFromMemory,
        ),
        (
            "240 syncs, plateau 120",
            with(disk(240.0), |f| f.plateau_ops_per_sec = Some(120.0)),
            Code::AnsweredFromMemory,
        ),
        ("240 syncs, nothing claimed", with(disk(240.0), |f| f.claimed_rpm = None), Code::Honoured),
        ("a commit of 27 a second", disk(27.2), Code::Honoured),
        (
            "cache known to the kernel only",
            with(disk(2564.0), |f| f.drive_view = None),
            Code::AnsweredFromMemory,
        ),
    ]);
}

#[test]
fn a_cache_said_to_be_off_is_held_to_the_platter_too() {
    check(&[
        ("113/s, cache off", cache_off(113.0), Code::NotNeeded),
        ("X7, cache off, 8.35 ms", cache_off(119.8), Code::NotNeeded),
        ("25,000/s with the cache off", cache_off(25_000.0), Code::AnsweredFromMemory),
        (
            "the same, flushes still sent",
            with(disk(25_000.0), |f| f.drive_view = Some(DriveView::Off)),
            Code::AnsweredFromMemory,
        ),
        ("25,000/s with the cache on", disk(25_000.0), Code::AnsweredFromMemory),
    ]);
    assert!(judge(&cache_off(25_000.0)).reasons.contains(&Reason::Turns(Turns::LiesOrKeeps)));
    assert!(!judge(&disk(25_000.0)).reasons.contains(&Reason::Turns(Turns::LiesOrKeeps)));
}

#[test]
fn without_a_flush_the_cause_is_told() {
    let unflushed = |f: &mut Facts| f.flushes_per_op = Some(0.0);
    let silent = with(virtio(), unflushed);
    check(&[
        (
            "tmpfs",
            with(virtio(), |f| {
                f.left_out_by.push(LeftOutBy::MemoryFileSystem);
                f.overwrite_ops_per_sec = Some(968_000.0);
            }),
            Code::NotAsked,
        ),
        (
            "968,000/s, nothing else known",
            with(virtio(), |f| {
                f.flushes_per_op = None;
                f.overwrite_ops_per_sec = Some(968_000.0);
            }),
            Code::NotAsked,
        ),
        ("nobarrier", with(silent.clone(), |f| f.left_out_by.push(LeftOutBy::BarriersOff)), Code::NotAsked),
        (
            "write through forced",
            with(silent.clone(), |f| f.kernel_view = Some(KernelView::WriteThroughForced)),
            Code::NotAsked,
        ),
        (
            "write through of a loop device",
            with(silent.clone(), |f| {
                f.attachment = Attachment::Loop;
                f.kernel_view = Some(KernelView::WriteThrough);
            }),
            Code::NotAsked,
        ),
        (
            "write through of a USB bridge",
            with(silent.clone(), |f| {
                f.attachment = Attachment::UsbBridge;
                f.kernel_view = Some(KernelView::WriteThrough);
            }),
            Code::NotAsked,
        ),
        (
            "volatile overlay",
            with(virtio(), |f| f.left_out_by.push(LeftOutBy::VolatileOverlay)),
            Code::NotAsked,
        ),
        ("eatmydata", with(silent.clone(), |f| f.left_out_by.push(LeftOutBy::PreloadShim)), Code::NotAsked),
        (
            "nobarrier beside a busy neighbour",
            with(virtio(), |f| f.left_out_by.push(LeftOutBy::BarriersOff)),
            Code::CannotTell,
        ),
        ("no cause known", silent.clone(), Code::NotAsked),
        ("FUA", with(silent.clone(), |f| f.fua = true), Code::CannotTell),
        (
            "nobarrier, but the cache is off",
            with(cache_off(119.0), |f| f.left_out_by.push(LeftOutBy::BarriersOff)),
            Code::NotNeeded,
        ),
        (
            "NVMe with protected memory",
            with(with(flash(), unflushed), |f| {
                f.drive_view = None;
                f.kernel_view = Some(KernelView::WriteThrough);
            }),
            Code::NotNeeded,
        ),
    ]);
}

#[test]
fn what_only_a_power_cut_can_tell_is_plausible() {
    check(&[
        ("virtio, 11,000/s, rotational 1", virtio(), Code::Plausible),
        ("flash", flash(), Code::Plausible),
        ("controller", with(disk(20_000.0), |f| f.attachment = Attachment::Controller), Code::Plausible),
        (
            "network",
            with(virtio(), |f| {
                f.attachment = Attachment::Network;
                f.flushes_per_op = None;
            }),
            Code::Plausible,
        ),
        (
            "flash without a volatile cache",
            with(flash(), |f| f.drive_view = Some(DriveView::Absent)),
            Code::NotNeeded,
        ),
        ("no counter", with(flash(), |f| f.flushes_per_op = None), Code::CannotTell),
        ("no medium", with(flash(), |f| f.rotational = None), Code::CannotTell),
        ("not measured", with(flash(), |f| f.overwrite_ops_per_sec = None), Code::CannotTell),
    ]);
    let no_proof = Reason::Turns(Turns::RotationalProvesNothing { attachment: Attachment::Virtual });
    assert!(judge(&virtio()).reasons.contains(&no_proof));
}

#[test]
fn the_answer_no_is_exit_status_4() {
    for code in [Code::NotAsked, Code::AnsweredFromMemory] {
        assert_eq!(code.exit_status(), 4, "{code}");
    }
    for code in [Code::NotNeeded, Code::Honoured, Code::Plausible, Code::CannotTell] {
        assert_eq!(code.exit_status(), 0, "{code}");
    }
}

#[test]
fn the_reasons_carry_their_figures() {
    let said = judge(&disk(6318.0)).reasons[0].to_string();
    assert_eq!(
        said,
        "6318 synced overwrites of one block a second on a disk that turns 120 times (7200 rpm); \
         the fastest platter (15000 rpm) turns 250 times"
    );
}

fn rates(one: &[(SyncMethod, f64)], two: &[(SyncMethod, f64)]) -> Rates {
    let rate = |&(method, ops_per_sec): &(SyncMethod, f64)| Rate { method, ops_per_sec, spread: None };
    Rates {
        one: one.iter().map(rate).collect(),
        two: two.iter().map(rate).collect(),
        sizes: Vec::new(),
        default: Some(SyncMethod::Fdatasync),
    }
}

#[test]
fn a_method_is_named_when_it_is_clearly_better() {
    use SyncMethod::{Fdatasync, Fsync, FsyncWritethrough, OpenDatasync, OpenSync};
    let all = &DURABLE_ON_LINUX;
    let cases: [(&str, Rates, &[SyncMethod], Recommendation); 9] = [
        (
            "clearly faster",
            rates(&[(OpenDatasync, 2000.0), (Fdatasync, 1000.0)], &[]),
            all,
            Recommendation::Use(OpenDatasync),
        ),
        (
            "within 5 %",
            rates(&[(OpenDatasync, 1040.0), (Fdatasync, 1000.0)], &[]),
            all,
            Recommendation::KeepDefault,
        ),
        (
            "faster with one write, dearer with two",
            rates(
                &[(OpenDatasync, 1100.0), (Fdatasync, 1000.0)],
                &[(OpenDatasync, 550.0), (Fdatasync, 990.0)],
            ),
            all,
            Recommendation::KeepDefault,
        ),
        (
            "two not measured, but sure to cost two syncs",
            rates(&[(OpenDatasync, 1100.0), (Fdatasync, 1000.0)], &[]),
            all,
            Recommendation::KeepDefault,
        ),
        (
            "default missing",
            rates(&[(Fsync, 6676.0), (OpenSync, 6088.0)], &[]),
            all,
            Recommendation::Use(Fsync),
        ),
        ("nothing measured", rates(&[], &[]), all, Recommendation::NotMeasured),
        (
            "the fastest is not durable",
            rates(&[(Fsync, 8831.0), (FsyncWritethrough, 735.0)], &[]),
            &[FsyncWritethrough],
            Recommendation::OnlyDurable(FsyncWritethrough),
        ),
        (
            "two writes faster than one",
            rates(&[(Fdatasync, 10_338.0), (Fsync, 6165.0)], &[(Fsync, 9886.0)]),
            all,
            Recommendation::Unstable(vec![Instability::TwoFasterThanOne {
                method: Fsync,
                one: 6165.0,
                two: 9886.0,
            }]),
        ),
        (
            "rounds far apart",
            Rates {
                one: vec![Rate { method: Fsync, ops_per_sec: 100.0, spread: Some(0.6) }],
                ..rates(&[], &[])
            },
            all,
            Recommendation::Unstable(vec![Instability::Spread { method: Fsync, spread: 0.6 }]),
        ),
    ];
    for (case, rates, durable, expected) in cases {
        assert_eq!(recommend(&rates, durable), expected, "{case}");
    }
    let unsafe_here = Facts { rates: rates(&[(Fdatasync, 6000.0)], &[]), ..disk(6000.0) };
    assert_eq!(judge(&unsafe_here).wal_sync_method, Recommendation::NoneIsSafe);
}

#[test]
fn more_writes_that_are_faster_are_an_inversion() {
    let rates =
        Rates { sizes: vec![(1, 1608.0), (2, 30.3), (4, 11.6), (8, 79.2), (16, 18.0)], ..rates(&[], &[]) };
    let expected =
        Instability::MoreWritesFaster { fewer: 4, fewer_ops_per_sec: 11.6, more: 8, more_ops_per_sec: 79.2 };
    assert_eq!(instabilities(&rates), [expected]);
    let rates = self::rates(&[(SyncMethod::Fdatasync, 11.92), (SyncMethod::Fsync, 30.524)], &[]);
    assert_eq!(
        instabilities(&rates),
        [Instability::FsyncFasterThanFdatasync { fsync: 30.524, fdatasync: 11.92 }]
    );
}

#[test]
fn without_the_deciding_line_the_verdict_blames_no_counter() {
    let nothing_asked = Facts { flushes_per_op: None, overwrite_ops_per_sec: None, ..disk(100.0) };
    let verdict = judge(&nothing_asked);
    assert_eq!(verdict.code, Code::CannotTell);
    assert_eq!(verdict.reasons, [Reason::Turns(Turns::NotMeasured)]);
}
