//! The rules themselves: text in, complaints out.

use std::collections::BTreeMap;

/// Lines of the longest file that one sitting can read.
pub const LONGEST_FILE: usize = 500;

/// A source file: its path from the root of the package, and its text.
pub struct Source<'a> {
    pub path: &'a str,
    pub text: &'a str,
}

/// The table of docs/ARCHITECTURE.md.
pub struct Table {
    floors: BTreeMap<String, u32>,
    imports: BTreeMap<String, Vec<String>>,
}

impl Table {
    /// Rows are the lines with four cells of which the first is a number.
    pub fn read(text: &str) -> Self {
        let mut table = Self { floors: BTreeMap::new(), imports: BTreeMap::new() };
        for line in text.lines() {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [floor, wing, _, imports] = cells[..] else { continue };
            let Ok(floor) = floor.parse() else { continue };
            table.floors.insert(wing.to_owned(), floor);
            table.imports.insert(wing.to_owned(), imports.split(", ").map(str::to_owned).collect());
        }
        table
    }

    pub fn wings(&self) -> impl Iterator<Item = &str> {
        self.floors.keys().map(String::as_str)
    }

    /// Rows that allow an import from the same or a higher floor.
    pub fn upward(&self) -> Vec<String> {
        let pairs = self.imports.iter().flat_map(|(wing, all)| all.iter().map(move |other| (wing, other)));
        pairs
            .filter_map(|(wing, other)| {
                let (own, theirs) = (self.floors[wing], *self.floors.get(other)?);
                (theirs >= own)
                    .then(|| format!("{wing} (floor {own}) may not import {other} (floor {theirs})"))
            })
            .collect()
    }

    fn allows(&self, wing: &str, other: &str) -> bool {
        let Some(allowed) = self.imports.get(wing) else { return true };
        wing == other
            || allowed.iter().any(|name| match name.as_str() {
                "all" => true,
                "all below" => self.floors[other] < self.floors[wing],
                name => name == other,
            })
    }
}

/// Everything a file does against the rules.
pub fn complaints(source: &Source<'_>, table: &Table) -> Vec<String> {
    let code = without_comments(source.text);
    let mut found = imports(source, &code, table);
    found.extend(banned(source, &code));
    let lines = source.text.lines().count();
    if lines > LONGEST_FILE {
        found.push(format!("{}: {lines} lines; split it: a file ends at {LONGEST_FILE}", source.path));
    }
    found
}

/// The code with everything from `//` to the end of a line blanked; a `//` inside a string may go with it, which can
/// only hide a word, never invent one.
fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn wing_of(path: &str) -> &str {
    path.trim_start_matches("src/").split('/').next().unwrap_or_default()
}

fn imports(source: &Source<'_>, code: &str, table: &Table) -> Vec<String> {
    let wing = wing_of(source.path);
    let mut others: Vec<&str> = reached(code, depth(source.path));
    others.retain(|other| table.floors.contains_key(*other) && !table.allows(wing, other));
    others.sort_unstable();
    others.dedup();
    others
        .into_iter()
        .map(|other| {
            let allowed = table.imports[wing].join(", ");
            format!(
                "{}: {wing} may import only {allowed}, not {other}; see docs/ARCHITECTURE.md",
                source.path
            )
        })
        .collect()
}

/// How many `super::` lead from a file to the root of the crate.
fn depth(path: &str) -> usize {
    let parts = path.trim_start_matches("src/").split('/').count();
    if path.ends_with("/mod.rs") { parts - 1 } else { parts }
}

/// The first names after `crate::` (groups included) and after as many `super::` as lead to the root.
fn reached(code: &str, depth: usize) -> Vec<&str> {
    let climb = "super::".repeat(depth);
    ["crate::", climb.as_str()]
        .into_iter()
        .flat_map(|start| code.match_indices(start).map(move |(at, _)| &code[at + start.len()..]))
        .flat_map(|rest| if rest.starts_with('{') { group(rest) } else { vec![word(rest)] })
        .collect()
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The first names of the members of a `{…}` group.
fn group(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut level = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => level += 1,
            '}' => level -= 1,
            _ => {}
        }
        if level == 1 && matches!(c, '{' | ',') {
            names.push(word(text[at + 1..].trim_start()));
        }
        if level == 0 {
            break;
        }
    }
    names
}

/// What a call is banned for, and where it may stand all the same.
struct Ban {
    texts: &'static [&'static str],
    allowed: fn(&str) -> bool,
    instead: &'static str,
}

fn nowhere(_: &str) -> bool {
    false
}

fn in_sys(path: &str) -> bool {
    path.starts_with("src/sys/")
}

fn in_cli(path: &str) -> bool {
    path.starts_with("src/cli/") || path == "src/main.rs"
}

fn impure(path: &str) -> bool {
    let pure = ["src/stats/", "src/results/", "src/forecast/", "src/report/"];
    let pure_rooms = ["src/simdrive/model", "src/simdrive/writelog", "src/simdrive/price"];
    !pure.iter().chain(&pure_rooms).any(|start| path.starts_with(start))
}

const BANS: &[Ban] = &[
    Ban {
        texts: &[".unwrap()"],
        allowed: nowhere,
        instead: "say why it cannot fail: .expect(\"…\"), or use ?",
    },
    Ban { texts: &["todo!(", "unimplemented!("], allowed: nowhere, instead: "build it, or leave it out" },
    Ban { texts: &["#[allow(", "#![allow("], allowed: nowhere, instead: "#[expect(…, reason = \"…\")]" },
    Ban {
        texts: &["Instant::now", "SystemTime::now", "Timestamp::now", "Zoned::now"],
        allowed: in_sys,
        instead: "sys::clock",
    },
    Ban {
        texts: &[
            ".sync_all(",
            ".sync_data(",
            "unistd::fsync",
            "unistd::fdatasync",
            "unistd::sync",
            "libc::fsync",
        ],
        allowed: in_sys,
        instead: "sys::kernel or sys::files",
    },
    Ban { texts: &["Command::new"], allowed: in_sys, instead: "sys::tools" },
    Ban {
        texts: &["unsafe {", "unsafe fn", "unsafe impl"],
        allowed: in_sys,
        instead: "put the call into sys",
    },
    Ban {
        texts: &["println!(", "eprintln!(", "print!(", "eprint!(", "use clap", "clap::", "anyhow::"],
        allowed: in_cli,
        instead: "only cli prints and parses: return a value, or report an event to the Watch",
    },
    Ban {
        texts: &["std::fs", "std::thread", "File::open", "File::create"],
        allowed: impure,
        instead: "this wing is pure: bytes and numbers in, bytes and numbers out",
    },
];

/// One complaint a ban and line: a line with two banned words of one kind is one fault.
fn banned(source: &Source<'_>, code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for ban in BANS.iter().filter(|ban| !(ban.allowed)(source.path)) {
        for (number, line) in code.lines().enumerate() {
            if let Some(text) = ban.texts.iter().find(|text| line.contains(**text)) {
                found.push(format!("{}:{}: {text}: {}", source.path, number + 1, ban.instead));
            }
        }
    }
    found
}
