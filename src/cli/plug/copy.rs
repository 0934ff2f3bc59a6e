//! `fsynclab plug copy`: power cuts under a template copy: is what a policy promised still there?

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anstream::ColorChoice;

use super::super::paper::Paper;
use super::super::problem::{Problem, Status};
use super::super::screen::Screen;
use super::super::{clean, grammar, output, redact};
use super::{findings, finished, problem};
use crate::lab::plug::PlugRequest;
use crate::powercut::Plan;
use crate::powercut::cuts::Image;
use crate::replay::template::Template;
use crate::simdrive::spec::Spec;
use crate::sys::error::shown;
use crate::sys::journal::{self, Journal};
use crate::sys::random::fresh_seed;
use crate::sys::signals::Signals;

/// Cut the power under a template copy on a simulated drive, at many points, and see what is left
///
/// The copy is recorded, then what may be left after each cut is mounted as after a reboot and compared with what was
/// acknowledged. In every run faults are planted first: a checker that does not find them says so and ends.
#[derive(Debug, clap::Args)]
pub struct CopyArgs {
    /// A built-in template, a directory or a shape file: its names and sizes; contents are made for the run
    #[arg(value_name = "TEMPLATE", default_value = "pg15")]
    template: OsString,
    /// The drive: MODEL and, after commas, write-cache=on|off, flush=honest|ignored, fs=ext4|xfs|btrfs, size=SIZE,
    /// mount=OPTIONS (last)
    #[arg(long, value_name = "SPEC", value_parser = spec)]
    sim: Spec,
    /// Policies, NAME[+AXIS=VALUE]…
    #[arg(
        long = "policy",
        value_name = "POLICY",
        value_delimiter = ',',
        default_value = "immediate,deferred,never"
    )]
    policies: Vec<String>,
    /// Random cuts during the copy, and as many after its end
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = grammar::number(0..=1_000_000_usize))]
    cuts: usize,
    /// About so many images at flushes and acknowledgements, at least two at each
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = grammar::number(0..=1_000_000_usize))]
    aimed: usize,
    /// At every flush and acknowledgement all combinations of up to 12 volatile writes, and many of more
    #[arg(long, conflicts_with = "aimed")]
    exhaustive: bool,
    /// Every random choice follows from it [default: a new one, printed]
    #[arg(long, value_name = "N", value_parser = grammar::seed)]
    seed: Option<u64>,
    /// Write the results to FILE, replaced after every policy; - is standard output, and nothing else goes there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// No image is judged after this; what was judged is kept
    #[arg(long, value_name = "DURATION", value_parser = grammar::duration)]
    time_limit: Option<Duration>,
    /// Images shown at once, 0 for one a core (of btrfs always one); the verdicts do not depend on it
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = grammar::number(0..=64_usize))]
    jobs: usize,
    /// Where the drive's contents and its write log lie while the run lasts
    #[arg(long, value_name = "DIR", default_value = ".")]
    scratch: PathBuf,
    /// Keep the write log in this file
    #[arg(long, value_name = "FILE")]
    write_log: Option<PathBuf>,
    /// Judge this write log in place of a new one: the same seed gives the same verdicts
    #[arg(long, value_name = "FILE", conflicts_with = "write_log")]
    from_log: Option<PathBuf>,
    /// Judge one image of the write log, as an example names it
    #[arg(long, value_name = "IMAGE", requires = "from_log", value_parser = image)]
    image: Option<Image>,
    /// Take every write for certain: the checker must find itself blind
    #[arg(long, hide = true)]
    blind: bool,
}

pub(super) fn spec(text: &str) -> Result<Spec, String> {
    text.parse().map_err(|error: crate::simdrive::Error| error.to_string())
}

pub(super) fn image(text: &str) -> Result<Image, String> {
    text.parse().map_err(|error: crate::powercut::image_text::NoImage| error.to_string())
}

/// Cuts, prints, undoes; the exit status.
pub fn run(args: &CopyArgs, color: ColorChoice, verbose: bool) -> anyhow::Result<ExitCode> {
    let request = request(args)?;
    let screen = Screen::new(Signals::install()?, verbose);
    let paper = Paper::new(args.json.as_deref(), color)?;
    let state = journal::state_directory()?;
    super::super::copy::offer_cleaning(&state, &screen);
    let journal = Journal::create(&state)?;
    if let Some(image) = &args.image {
        let shown = request.show(image, &journal).map_err(|error| problem(&error));
        clean::undo_own(journal)?;
        return show(&shown?, color);
    }
    paper.head(&request.head())?;
    let done = request.run(&journal, &screen, &mut paper.keeper(&journal, &screen)?);
    finished(done, journal, paper, &screen)
}

fn request(args: &CopyArgs) -> Result<PlugRequest, Problem> {
    let policies = grammar::policies(&args.policies)?;
    let template =
        Template::resolve(&args.template, 1).map_err(|error| super::super::copy::template_problem(&error))?;
    let seed = args.seed.unwrap_or_else(fresh_seed);
    Ok(PlugRequest {
        spec: args.sim.clone(),
        template,
        policies,
        plan: Plan {
            cuts: args.cuts,
            aimed: if args.exhaustive { usize::MAX } else { args.aimed },
            seed,
            emptied: args.blind,
            jobs: args.jobs,
        },
        time_limit: args.time_limit,
        scratch: args.scratch.clone(),
        write_log: args.write_log.clone(),
        from_log: args.from_log.clone(),
        argv: redact::arguments(std::env::args_os()),
    })
}

/// What is found on one image, a line each.
fn show(judged: &crate::powercut::stage::Judged, color: ColorChoice) -> anyhow::Result<ExitCode> {
    let lines = judged.findings.iter().map(|finding| {
        let promised = if finding.promised { "promised" } else { "not promised" };
        format!("{}: {}: {} ({promised})", finding.verdict, shown(&finding.path), finding.detail)
    });
    let text = findings(judged.repaired, lines);
    output::print(&text, color)?;
    let broken = judged.findings.iter().any(|finding| finding.promised);
    Ok(if broken { Status::No.into() } else { ExitCode::SUCCESS })
}
