//! Combinations that mean nothing, each with the reason: refused, never quietly taken for something else.

use super::axes::{
    Axes, Axis, CopyBy, Every, Hint, Open, Order, RANGE_BYTES, Settle, SyncCall, SyncWhen, Via,
};

/// One combination that means nothing.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// What is wrong, as a sentence without its full stop.
    pub why: &'static str,
    breaks: fn(&Axes) -> bool,
}

/// All of them but `every` without a hint, which depends on what was given.
pub const RULES: &[Rule] = &[
    Rule {
        why: "via=io-uring needs a second pass of syncs: sync=after or sync=held",
        breaks: |axes| axes.via == Via::IoUring && !axes.second_pass(),
    },
    Rule {
        why: "jobs above 1 need a second pass of syncs: sync=after or sync=held",
        breaks: |axes| axes.jobs > 1 && !axes.second_pass(),
    },
    Rule {
        why: "call=fdatasync means nothing with sync=never and sync=syncfs: no file is synced by itself",
        breaks: |axes| {
            axes.call == SyncCall::Fdatasync && matches!(axes.sync, SyncWhen::Never | SyncWhen::Syncfs)
        },
    },
    Rule {
        why: "order means nothing with sync=never and sync=dummy: no files are synced in an order",
        breaks: |axes| axes.order != Order::Readdir && matches!(axes.sync, SyncWhen::Never | SyncWhen::Dummy),
    },
    Rule {
        why: "settle=wait needs a hint: without one no writeback was started that could be waited for",
        breaks: |axes| axes.settle == Settle::Wait && axes.hint == Hint::None,
    },
    Rule {
        why: "settle=wait means nothing with hint=write-and-wait, which has waited already",
        breaks: |axes| axes.settle == Settle::Wait && axes.hint == Hint::WriteAndWait,
    },
    Rule {
        why: "settle=wait means nothing with sync=each: every file is synced before the next is copied",
        breaks: |axes| axes.settle == Settle::Wait && axes.sync == SyncWhen::Each,
    },
    Rule {
        why: "every=pass means nothing with sync=each: every file is synced before the pass",
        breaks: |axes| hinted(axes) && axes.every == Every::Pass && axes.sync == SyncWhen::Each,
    },
    Rule {
        why: "a hint means nothing with copy=reflink and copy=direct: the page cache holds nothing to be written",
        breaks: |axes| hinted(axes) && matches!(axes.copy, CopyBy::Reflink | CopyBy::Direct),
    },
    Rule {
        why: "copy=aio keeps files open until they are written together: sync=held",
        breaks: |axes| axes.copy == CopyBy::Aio && axes.sync != SyncWhen::Held,
    },
    Rule {
        why: "a hint means nothing with open=o-dsync and open=o-sync: every write is on disk when it returns",
        breaks: |axes| hinted(axes) && axes.open != Open::Plain,
    },
    Rule {
        why: "open=o-dsync and open=o-sync cover writes only: copy=read-write or copy=direct",
        breaks: |axes| {
            let covered = matches!(axes.copy, CopyBy::ReadWrite | CopyBy::Direct);
            axes.open != Open::Plain && !covered
        },
    },
    Rule {
        why: "with copy=copy-file-range a hint comes after a chunk of 1MiB at the earliest: every=1MiB or more",
        breaks: |axes| {
            hinted(axes)
                && axes.copy == CopyBy::CopyFileRange
                && matches!(axes.every, Every::Bytes(bytes) if bytes < RANGE_BYTES)
        },
    },
];

const EVERY_WITHOUT_HINT: Rule =
    Rule { why: "every means nothing with hint=none", breaks: |axes| !hinted(axes) };

/// The first rule that these axes break, `given` being those named by the user.
pub(super) fn broken(axes: &Axes, given: &[Axis]) -> Option<Rule> {
    let every = given.contains(&Axis::Every).then_some(EVERY_WITHOUT_HINT);
    every.into_iter().chain(RULES.iter().copied()).find(|rule| (rule.breaks)(axes))
}

fn hinted(axes: &Axes) -> bool {
    axes.hint != Hint::None
}
