//! What is typed wrong, what is refused, and the exit status of each.

mod common;

use std::fs;
use std::path::Path;
use std::process::Output;

use common::{fsynclab, scratch, text};

/// Runs in an empty directory; afterwards it is empty again, and so is the state directory.
fn run(arguments: &[&str]) -> Output {
    let work = scratch("usage");
    let state = work.path().join("state");
    let here = work.path().join("here");
    fs::create_dir(&here).expect("a directory");
    let output = fsynclab(&state).args(arguments).current_dir(&here).output().expect("the program");
    assert_eq!(
        fs::read_dir(&here).expect("the directory").count(),
        0,
        "something is left: {}",
        text(&output)
    );
    let journals = fs::read_dir(&state).map_or(0, Iterator::count);
    assert_eq!(journals, 0, "a journal is left: {}", text(&output));
    output
}

#[track_caller]
fn check(arguments: &[&str], status: i32, expected: &[&str]) {
    let output = run(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.lines().all(|line| line.chars().count() <= 79 || line.contains('/')),
        "wider than 79 columns: {stderr}"
    );
    // Where a line is broken is of no concern here.
    let stderr = stderr.replace('\n', " ");
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text(&output));
    assert!(output.stdout.is_empty(), "{arguments:?}: {}", text(&output));
    assert!(!stderr.contains("panicked") && !stderr.contains("os error"), "{arguments:?}: {stderr}");
    for part in expected {
        assert!(stderr.contains(part), "{arguments:?}: \"{part}\" is not in: {stderr}");
    }
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_is_wrong() {
    check(&[], 2, &["Usage: fsynclab"]);
    check(&["copi"], 2, &["unrecognized subcommand 'copi'"]);
    check(&["copy", "--no-such"], 2, &["unexpected argument '--no-such'"]);
    check(&["copy", "--policy", "deferd"], 2, &["error: ", "deferd", "hint: "]);
    check(&["copy", "--policy", "deferred+hint=loudly"], 2, &["error: ", "loudly", "hint: "]);
    check(&["copy", "--policy", "deferred+colour=red"], 2, &["error: ", "colour"]);
    check(&["copy", "--policy", "syncfs+call=fdatasync"], 2, &["error: "]);
    check(
        &["copy", "--policy", "pg-15", "--policy", "pg-14"],
        2,
        &["\"pg-9.6\" is given twice", "hint: --aa"],
    );
    check(&["copy", "--into", "sim:7200rpm"], 2, &["no simulated drive is called \"7200rpm\"", "sim list"]);
    check(&["copy", "--into", ".", "--into", "."], 2, &["the place \".\" is given twice"]);
    check(&["copy", "--time-limit", "60"], 2, &["--time-limit", "60s"]);
    check(&["copy", "--rounds", "0"], 2, &["--rounds"]);
    check(&["copy", "--order", "random"], 2, &["shuffled, abba, in-turn"]);
    check(&["copy", "--verify", "maybe"], 2, &["full, sizes and off"]);
    check(&["copy", "--write-cache", "on,on"], 2, &["--write-cache on is given twice"]);
    check(&["probe", "--write-cache", "off,off"], 2, &["--write-cache off is given twice"]);
    check(&["probe", "--pg", "--write-cache", "on,off"], 2, &["--pg", "cannot be used with"]);
    check(&["copy", "--into", ".", "--into", "../here"], 2, &["is given twice (as \".\" too)"]);
    check(&["copy", "--into", ""], 2, &["hint: \".\" is the current directory"]);
    check(&["copy", "--policy", "immediate,"], 2, &["no policy is named in \"\"", "hint: "]);
    check(&["copy", "--policy", "deferred+jobs=0"], 2, &["a number from 1 (the default) to 1024"]);
    check(&["copy", "many-small:0"], 2, &["\"many-small\" takes a number from 1"]);
    check(&["copy", "--template-scale", "3", "."], 2, &["only shapes can be scaled"]);
    check(&["copy", "."], 2, &["the place \".\" lies within the template \".\"", "hint: "]);
}

#[test]
fn a_number_that_is_none_is_told_in_our_words() {
    for option in ["--rounds", "--warmup", "--seed", "--template-scale"] {
        for value in ["-1", "x", "1.5", "99999999999999999999999"] {
            check(&["copy", option, value], 2, &[option, "a whole number from "]);
        }
    }
    check(&["copy", "--rounds", "0"], 2, &["a whole number from 1 to "]);
    check(&["probe", "-s", "-1"], 2, &["a whole number from 1 to "]);
    check(&["copy", "--bystander", "-1/s"], 2, &["a rate is a number from 1 to "]);
    check(&["copy", "--time-limit", "-1s"], 2, &["a duration is a number and its unit"]);
    check(&["copy", "--time-limit", "9999999999d"], 2, &["at most 36500 d are possible"]);
}

#[test]
fn where_nothing_can_be_made_nothing_is_measured() {
    for place in ["/proc", "/sys"] {
        let output = run(&["copy", "--into", place]);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        assert!(common::told(&output).contains("could not create directory"), "{}", text(&output));
    }
    let output = fsynclab(Path::new("/proc/state")).arg("copy").output().expect("the program");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(common::told(&output).contains("hint: set FSYNCLAB_STATE_DIR"), "{}", text(&output));
}

#[test]
fn what_is_not_there_ends_with_1() {
    check(
        &["copy", "no-such-template"],
        1,
        &["there is no template \"no-such-template\"", "hint: built-in shapes: pg15"],
    );
    check(
        &["copy", "--into", "no/such/place"],
        1,
        &["error: ", "\"no/such/place\": No such file or directory"],
    );
    check(&["shape", "no-such-tree"], 1, &["error: ", "no-such-tree", "No such file or directory"]);
    check(&["copy", "--json", "no/such/r.json"], 1, &["error: ", "No such file or directory"]);
}

#[test]
fn what_must_not_be_written_ends_with_3_and_a_way_out() {
    let work = scratch("cluster");
    let data = work.path().join("main");
    fs::create_dir_all(data.join("global")).expect("directories");
    fs::create_dir_all(data.join("pg_wal")).expect("directories");
    fs::write(data.join("PG_VERSION"), "15\n").expect("a file");
    fs::write(data.join("global/pg_control"), "").expect("a file");
    let wal = data.join("pg_wal");
    let wal = wal.to_str().expect("text");
    let hint = format!("hint: same file system, outside it: fsynclab copy --into {}", work.path().display());
    check(&["copy", "--into", wal], 3, &["refused: ", "is the data directory of a cluster", &hint]);
    let disk = fs::read_dir("/sys/block")
        .expect("sysfs")
        .flatten()
        .map(|disk| Path::new("/dev").join(disk.file_name()));
    let disk = disk.into_iter().find(|device| device.exists()).expect("a block device");
    check(
        &["copy", "--into", disk.to_str().expect("text")],
        3,
        &["refused: ", "is a block device", "hint: "],
    );
}

#[test]
fn a_run_of_refused_arms_only_ends_with_3_and_shows_them() {
    let output = run(&["copy", "--policy", "reflink", "--into", "/dev/shm", "--rounds", "1"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("refused: "), "{}", text(&output));
}

#[test]
fn help_lists_what_is_built_and_goes_to_stdout() {
    for help in ["--help", "-h", "-?"] {
        let output = run(&["copy", help]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.contains("--list-policies") && output.stderr.is_empty(), "{}", text(&output));
    }
}

#[test]
fn help_keeps_to_79_columns_and_tells_the_defaults_of_its_command() {
    let commands: [&[&str]; 13] = [
        &[],
        &["copy"],
        &["createdb"],
        &["restore"],
        &["probe"],
        &["drive"],
        &["plug", "copy"],
        &["plug", "postgres"],
        &["compare"],
        &["sim", "run"],
        &["clean"],
        &["shape"],
        &["man"],
    ];
    for command in commands {
        let output = run(&[command, &["--help"]].concat());
        let help = String::from_utf8_lossy(&output.stdout);
        let wide = help.lines().find(|line| line.chars().count() > 79);
        // A SPEC has no space to be broken at.
        assert!(wide.is_none_or(|line| line.contains("[,fs=")), "{command:?}: {wide:?}");
    }
    for (command, limit) in
        [("copy", "60s; with simulated drives 5min"), ("createdb", "30min"), ("restore", "30d")]
    {
        let help = String::from_utf8_lossy(&run(&["help", command]).stdout).into_owned();
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("No trial begins after this [default: {limit}]")), "{help}");
    }
}

#[test]
fn manual_pages_and_completions_come_from_the_same_definitions() {
    let output = run(&["man", "copy"]);
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && page.contains("\\-\\-time\\-limit"), "{}", text(&output));
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("list-policies"),
            "{shell}: {}",
            text(&output)
        );
    }
    for words in [&["man", "sim", "run"][..], &["man", "sim-run"]] {
        let page = String::from_utf8_lossy(&run(words).stdout).into_owned();
        let version = env!("CARGO_PKG_VERSION");
        assert!(page.contains(&format!(".TH fsynclab-sim-run 1  \"fsynclab {version}\"")), "{page}");
    }
    check(&["man", "sim", "walk"], 2, &["there is no command \"sim walk\""]);
    check(&["man", "forecast"], 2, &["there is no command \"forecast\""]);
}

#[test]
fn every_policy_and_every_template_is_listed_within_79_columns() {
    for (list, names) in
        [("--list-policies", ["immediate", "pg-18-clone"]), ("--list-templates", ["pg15", "few-large"])]
    {
        let output = run(&["copy", list]);
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(names.iter().all(|name| stdout.contains(name)), "{}", text(&output));
        assert!(stdout.lines().all(|line| line.chars().count() <= 79), "{stdout}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_told_by_name_and_reason() {
    for command in [&["compare"][..], &["probe", "--published"]] {
        let with = |file: &'static str| [command, &[file]].concat();
        check(&with("nosuch"), 1, &["could not read file \"nosuch\": No such file or directory"]);
        check(&with("/etc"), 1, &["\"/etc\": Is a directory"]);
    }
    check(&["shape", "/etc/passwd"], 1, &["\"/etc/passwd\" is not a directory"]);
    check(&["shape", "/nosuch"], 1, &["\"/nosuch\": No such file or directory"]);
}

#[test]
fn a_results_file_that_was_cut_short_or_edited_is_refused_in_our_words() {
    let work = scratch("cut");
    let whole = fsynclab::results::Document::new(fsynclab::results::Kind::Probe);
    let whole = fsynclab::results::text::write(&whole);
    let cut = work.path().join("cut.json");
    fs::write(&cut, &whole[..whole.len() / 2]).expect("half a file");
    let cut = cut.to_str().expect("a path");
    check(&["compare", cut, cut], 1, &["cut.json\": this results file was cut short", "hint: "]);
}

#[test]
fn a_time_too_short_for_one_operation_of_each_line_is_wrong_usage() {
    for time in ["0s", "1ms"] {
        let output = run(&["probe", "--beside-server", "--time", time]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("too short") && told.contains("hint: --time "), "{told}");
    }
}

#[test]
fn a_run_in_which_nothing_was_measured_ends_with_3_and_names_the_option() {
    let output = run(&["copy", "--beside-server", "--time-limit", "0s"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let told = text(&output);
    assert!(told.contains("nothing could be measured within 0 s; --time-limit gives more"), "{told}");
}
