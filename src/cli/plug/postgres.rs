//! `fsynclab plug postgres`: power cuts under a server: does it recover, with everything it acknowledged?

use std::cmp::Reverse;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anstream::ColorChoice;

use super::copy::{image, spec};
use super::{findings, finished, problem};
use crate::cli::paper::Paper;
use crate::cli::problem::{Problem, Status};
use crate::cli::screen::Screen;
use crate::cli::{clean, copy, grammar, output, redact};
use crate::lab::plug::PlugError;
use crate::lab::plug_postgres::PostgresRequest;
use crate::powercut::Error;
use crate::powercut::cuts::Image;
use crate::powercut::postgres::check::Checked;
use crate::powercut::postgres::tally::Finding;
use crate::powercut::postgres::{Plan, Workload};
use crate::report;
use crate::server::ServerError;
use crate::server::cluster::installed;
use crate::server::settings::{Setting, parse_vary};
use crate::simdrive::spec::Spec;
use crate::sys::journal::{self, Journal};
use crate::sys::random::fresh_seed;
use crate::sys::signals::Signals;

/// Cut the power under a PostgreSQL server on a simulated drive, and see whether it recovers with all it acknowledged
///
/// A cluster made for the run commits over several connections, creates databases by every strategy it has and restores
/// dumps. What may be left after each cut is mounted, a real server recovers on it, and is compared with what was
/// acknowledged; pg_amcheck and pg_checksums look at the rest. In every run the checker first proves itself.
#[derive(Debug, clap::Args)]
pub(super) struct PostgresArgs {
    /// The drive: MODEL and, after commas, write-cache=on|off, flush=honest|ignored, fs=ext4|xfs|btrfs, size=SIZE,
    /// mount=OPTIONS (last); may be repeated
    #[arg(long = "sim", value_name = "SPEC", value_parser = spec, required = true)]
    specs: Vec<Spec>,
    /// Where a server's programs are; may be repeated [default: the newest installed]
    #[arg(long = "bin", value_name = "[NAME=]DIR")]
    binaries: Vec<String>,
    /// A setting for all clusters; may be repeated
    #[arg(long = "set", value_name = "P=V", value_parser = setting)]
    settings: Vec<Setting>,
    /// A setting whose values are compared, such as fsync=on,off; may be repeated
    #[arg(long = "vary", value_name = "P=V1,V2")]
    varied: Vec<String>,
    /// Random cuts
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = grammar::number(0..=1_000_000_usize))]
    cuts: usize,
    /// Cuts aimed at acknowledgements and at the middle of table pages, half of each
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = grammar::number(0..=1_000_000_usize))]
    aimed: usize,
    /// How long the server works; less where its write log grows by more than 256 MiB
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = grammar::duration)]
    duration: Duration,
    /// Connections that commit; every second one with synchronous_commit=off
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = grammar::number(1..=80_u32))]
    connections: u32,
    /// Images judged at a time, 0 for one a core (of btrfs always one)
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = grammar::number(0..=64_usize))]
    jobs: usize,
    /// Every random choice follows from it [default: a new one, printed]
    #[arg(long, value_name = "N", value_parser = grammar::seed)]
    seed: Option<u64>,
    /// Write the results to FILE, replaced after every arm; - is standard output, and nothing else goes there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// No image is judged after this; what was judged is kept
    #[arg(long, value_name = "DURATION", value_parser = grammar::duration)]
    time_limit: Option<Duration>,
    /// Where the drives' contents and their write logs lie while the run lasts; the server's user must be able to pass
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    scratch: PathBuf,
    /// Keep the write log in this file; those of further arms in FILE-2, FILE-3 and so on
    #[arg(long, value_name = "FILE")]
    write_log: Option<PathBuf>,
    /// Judge this write log in place of a new one: the same seed gives the same cuts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["write_log", "varied", "settings"])]
    from_log: Option<PathBuf>,
    /// Judge one image of the write log, as an example names it
    #[arg(long, value_name = "IMAGE", requires = "from_log", value_parser = image)]
    image: Option<Image>,
    /// Take every write for certain: the checker must find itself blind
    #[arg(long, hide = true)]
    blind: bool,
}

fn setting(text: &str) -> Result<Setting, String> {
    Setting::parse(text).map_err(|error| error.to_string())
}

/// Cuts, prints, undoes; the exit status.
pub(super) fn run(args: &PostgresArgs, color: ColorChoice, verbose: bool) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(Signals::install()?, verbose);
    let run = request(args)?.survey(&screen).map_err(|error| unfit(&error))?;
    let paper = Paper::new(args.json.as_deref(), color)?;
    let state = journal::state_directory()?;
    copy::offer_cleaning(&state, &screen);
    let journal = Journal::create(&state)?;
    if let Some(image) = &args.image {
        let shown = run.show(image, &journal, &screen).map_err(|error| problem(&error));
        clean::undo_own(journal)?;
        return show(&shown?, color);
    }
    paper.head(&run.head())?;
    let done = run.run(&journal, &screen, &mut paper.keeper(&journal, &screen)?);
    finished(done, journal, paper, &screen)
}

fn request(args: &PostgresArgs) -> Result<PostgresRequest, Problem> {
    let varied = args.varied.iter().map(|text| parse_vary(text)).collect::<Result<Vec<_>, _>>();
    let varied = varied.map_err(|error| Problem::usage(error.to_string()))?;
    if let Some(spec) = (1..args.specs.len()).find(|at| args.specs[..*at].contains(&args.specs[*at])) {
        return Err(Problem::usage(format!("the drive \"{}\" is given twice", args.specs[spec])));
    }
    if args.from_log.is_some() && args.specs.len() * args.binaries.len().max(1) > 1 {
        return Err(Problem::usage("a write log is of one drive, and is judged with one server"));
    }
    let mut binaries = args.binaries.clone();
    if binaries.is_empty() {
        let directory = installed().ok_or_else(|| {
            Problem::refused("no PostgreSQL server is installed here")
                .hint(Some("--bin DIR names the directory of postgres, initdb and pg_ctl"))
        })?;
        binaries.push(directory.to_string_lossy().into_owned());
    }
    Ok(PostgresRequest {
        specs: args.specs.clone(),
        binaries,
        settings: args.settings.clone(),
        varied,
        workload: Workload { connections: args.connections, duration: args.duration },
        plan: Plan {
            cuts: args.cuts,
            aimed: args.aimed,
            jobs: args.jobs,
            seed: args.seed.unwrap_or_else(fresh_seed),
            emptied: args.blind,
        },
        time_limit: args.time_limit,
        scratch: args.scratch.clone(),
        write_log: args.write_log.clone(),
        from_log: args.from_log.clone(),
        argv: redact::arguments(std::env::args_os()),
    })
}

/// A setting that is not the user's to give is wrong usage, and so is a drive that is no model.
fn unfit(error: &PlugError) -> Problem {
    match error {
        PlugError::Cut(Error::Server(setting @ ServerError::SettingIsOurs { .. })) => {
            Problem::usage(setting.to_string())
        }
        PlugError::Cut(Error::Drive(drive)) => Problem::usage(drive.to_string()).hint(drive.hint()),
        error => problem(error),
    }
}

/// What is found on one image, a line each, the worst first.
fn show(checked: &Checked, color: ColorChoice) -> anyhow::Result<ExitCode> {
    let line = |finding: &Finding| format!("{}: {}: {}", finding.verdict, finding.what, finding.detail);
    let mut found: Vec<&Finding> = checked.findings.iter().collect();
    found.sort_by_key(|finding| Reverse(finding.verdict));
    let mut text = findings(checked.repaired, found.into_iter().map(line));
    if let Some(recovery_ns) = checked.recovery_ns {
        text += &format!("recovery took {}\n", report::duration(recovery_ns));
    }
    output::print(&text, color)?;
    Ok(if checked.verdict().is_kept() { ExitCode::SUCCESS } else { Status::No.into() })
}
