//! Progress on stderr: a bar on a terminal, else one line a round; every phase as it starts with `--verbose`.
//!
//! Phases are told inside the clock: they cost an atomic store, unless they were asked for as lines.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::lines;
use crate::report;
use crate::sys::signals::Signals;
use crate::sys::watch::{Event, Phase, Stop, Watch};

/// How often the bar is drawn.
const TICK: Duration = Duration::from_millis(100);

/// Before the first round; `wide_msg` is cut to what the terminal leaves for it.
const BEFORE: &str = "{elapsed} {wide_msg}";
/// From the first round on.
const ROUND: &str = "{prefix} [{bar:10}] {elapsed} {wide_msg}";

/// Who looks on: the user.
pub struct Screen {
    signals: Signals,
    verbose: bool,
    /// Drawn from the first phase on: before it, what goes to stdout has the terminal to itself.
    bar: Option<ProgressBar>,
    drawn: Once,
    now: Arc<Now>,
    line: Mutex<Line>,
}

/// What is being done and how far it has come, for the thread that draws.
#[derive(Default)]
struct Now {
    trial: Mutex<String>,
    phase: AtomicUsize,
    done: AtomicU64,
    /// 0 where the phase does not say how far it has come.
    total: AtomicU64,
}

impl Now {
    fn begin(&self, phase: Phase) {
        self.phase.store(phase as usize, Ordering::Relaxed);
        self.progress(0, 0);
    }

    fn progress(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    fn words(&self) -> String {
        let phase = Phase::ALL.get(self.phase.load(Ordering::Relaxed)).map_or("", |phase| phase.name());
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        let trial = locked(&self.trial);
        let between = if trial.is_empty() { "" } else { " " };
        match done.saturating_mul(100).checked_div(total) {
            Some(percent) => format!("{trial}{between}{phase} {percent} %"),
            None => format!("{trial}{between}{phase}"),
        }
    }
}

/// What will be said of the round at its end.
#[derive(Default)]
struct Line {
    round: u32,
    rounds: u32,
    trials: String,
}

impl Screen {
    /// Progress as stderr can take it.
    pub fn new(signals: Signals, verbose: bool) -> Self {
        let now = Arc::<Now>::default();
        let bar = (!verbose && io::stderr().is_terminal()).then(bar);
        Self { signals, verbose, bar, drawn: Once::new(), now, line: Mutex::default() }
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Lines on stderr, above the bar. A stderr that takes nothing is no reason to end a run.
    pub fn say(&self, text: &str) {
        self.without_bar(|| writeln!(io::stderr(), "{}", lines::wrapped(text)).ok());
    }

    /// What writes to stdout while the bar may be there: a terminal shows both.
    pub fn without_bar<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn round(&self, round: u32, rounds: u32) {
        if let Some(bar) = &self.bar {
            if round == 1 {
                bar.set_style(style(ROUND));
            }
            bar.set_length(u64::from(rounds));
            bar.set_position(u64::from(round - 1));
            bar.set_prefix(format!("round {round}/{rounds}"));
        }
        *locked(&self.line) = Line { round, rounds, trials: String::new() };
    }

    fn trial(&self, arm: &str, position: u32, positions: u32) {
        *locked(&self.now.trial) = format!("{arm} ({position} of {positions})");
        if self.verbose {
            self.say(&format!("trial {position} of {positions}: {arm}"));
        }
    }

    fn trial_done(&self, arm: &str, elapsed_ns: Option<u64>) {
        let took = elapsed_ns.map_or_else(|| "no result".to_owned(), report::duration);
        let mut line = locked(&self.line);
        let comma = if line.trials.is_empty() { "" } else { ", " };
        write!(line.trials, "{comma}{arm} {took}").ok();
    }

    /// Says what the round that is over was like; for those who see no bar.
    fn round_done(&self) {
        let line = std::mem::take(&mut *locked(&self.line));
        if self.bar.is_none() && !line.trials.is_empty() {
            self.say(&format!("round {} of {}: {}", line.round, line.rounds, line.trials));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch for Screen {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Round { round, rounds } => {
                self.round_done();
                self.round(round, rounds);
            }
            Event::Trial { arm, position, positions } => self.trial(arm, position, positions),
            Event::TrialDone { arm, elapsed_ns } => self.trial_done(arm, elapsed_ns),
            Event::Phase(phase) => {
                self.now.begin(phase);
                if let Some(bar) = &self.bar {
                    self.drawn.call_once(|| draw(bar, &self.now));
                }
                if phase == Phase::WritingResults {
                    self.round_done();
                }
                if self.verbose {
                    self.say(&format!("phase: {phase}"));
                }
            }
            Event::Progress { done, total, .. } => self.now.progress(done, total),
            Event::Note(text) => self.say(text),
        }
    }

    fn stop(&self) -> Option<Stop> {
        self.signals.stop()
    }
}

fn bar() -> ProgressBar {
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style(BEFORE))
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ")
}

/// Draws the bar in a thread of its own until it is finished or gone: who works only stores what is being done.
fn draw(bar: &ProgressBar, now: &Arc<Now>) {
    let (bar, now) = (bar.downgrade(), Arc::clone(now));
    thread::spawn(move || {
        while let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) {
            bar.set_message(now.words());
            bar.tick();
            drop(bar);
            thread::sleep(TICK);
        }
    });
}
