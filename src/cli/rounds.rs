//! How often, in what order, how long: the options of every command that runs rounds.

use std::time::Duration;

use clap::Arg;

use super::grammar;
use crate::lab::{Order, Plan};
use crate::sys::random::fresh_seed;

/// The most rounds that may be asked for.
const MOST: u32 = 1_000_000;

/// What a command does where nothing is said, for its help.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Of `--rounds`.
    pub rounds: &'static str,
    /// Of `--warmup`.
    pub warmup: &'static str,
    /// Of `--order`.
    pub order: &'static str,
    /// Of `--time-limit`.
    pub time_limit: &'static str,
}

impl Defaults {
    /// Adds them to the help of the options of [`Rounds`].
    pub fn tell(self, arg: Arg) -> Arg {
        let default = match arg.get_id().as_str() {
            "counted" => self.rounds,
            "warmup" => self.warmup,
            "order" => self.order,
            "time_limit" => self.time_limit,
            _ => return arg,
        };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        arg.help(format!("{help} [default: {default}]"))
    }
}

/// How often, in what order, how long
#[derive(Clone, Debug, clap::Args)]
pub struct Rounds {
    /// Rounds that count
    #[arg(long = "rounds", value_name = "N", value_parser = grammar::number(1..=MOST))]
    counted: Option<u32>,
    /// Rounds before them that do not
    #[arg(long, value_name = "N", value_parser = grammar::number(0..=MOST))]
    warmup: Option<u32>,
    /// Every random choice follows from it [default: a new one, printed]
    #[arg(long, value_name = "N", value_parser = grammar::seed)]
    seed: Option<u64>,
    /// Order within a round: shuffled, abba or in-turn
    #[arg(long, value_name = "ORDER", value_parser = grammar::order)]
    order: Option<Order>,
    /// No trial begins after this
    #[arg(long, value_name = "DURATION", value_parser = grammar::duration)]
    time_limit: Option<Duration>,
    /// Run a second copy of the baseline: what is called a difference where there is none
    #[arg(long)]
    pub aa: bool,
}

impl Rounds {
    /// The same with a command's own defaults for what was not given.
    #[must_use]
    pub fn or(mut self, counted: u32, warmup: u32, time_limit: Duration) -> Self {
        self.counted = self.counted.or(Some(counted));
        self.warmup = self.warmup.or(Some(warmup));
        self.time_limit = self.time_limit.or(Some(time_limit));
        self
    }

    /// The same with every round in the order given, unless another order was asked for.
    #[must_use]
    pub fn or_in_turn(mut self) -> Self {
        self.order = self.order.or(Some(Order::InTurn));
        self
    }

    /// The plan, its seed chosen.
    pub fn plan(&self) -> Plan {
        Plan {
            rounds: self.counted.unwrap_or(7),
            warmup: self.warmup.unwrap_or(1),
            order: self.order.unwrap_or_default(),
            seed: self.seed.unwrap_or_else(fresh_seed),
            time_limit: Some(self.time_limit.unwrap_or(Duration::from_mins(1))),
        }
    }
}
