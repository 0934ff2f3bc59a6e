//! How often and in what order: rounds in which every arm runs once, so that drift meets all arms alike.

use std::fmt;
use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The order of the arms within a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// A new random order each round, from the seed.
    #[default]
    Shuffled,
    /// As given, then backwards, then as given: a linear drift cancels out over pairs of rounds.
    Abba,
    /// As given, every round.
    InTurn,
    /// The arms as given are blocks of so many each, which share a state that is slow to reach: a new random order of
    /// the blocks each round, and of the arms within each.
    Blocks(usize),
}

impl Order {
    /// Every order, by its name on the command line.
    pub const ALL: [(&'static str, Self); 3] =
        [("shuffled", Self::Shuffled), ("abba", Self::Abba), ("in-turn", Self::InTurn)];
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, order)| order == self).map_or("blocks", |(name, _)| *name);
        f.pad(name)
    }
}

/// How often, in what order, how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Rounds that count.
    pub rounds: u32,
    /// Rounds before them that do not.
    pub warmup: u32,
    /// Order within a round.
    pub order: Order,
    /// Every random choice of the run follows from it.
    pub seed: u64,
    /// No trial begins after this.
    pub time_limit: Option<Duration>,
}

impl Plan {
    /// Rounds in all, warm-ups first.
    pub fn all_rounds(&self) -> u32 {
        self.warmup.saturating_add(self.rounds)
    }

    /// Whether this round (from 1) is a warm-up.
    pub fn is_warmup(&self, round: u32) -> bool {
        round <= self.warmup
    }

    /// The indices of `arms` arms in the order of this round (from 1).
    pub fn positions(&self, round: u32, arms: usize) -> Vec<usize> {
        let mut positions: Vec<usize> = (0..arms).collect();
        match self.order {
            Order::Shuffled => positions.shuffle(&mut self.choices(round)),
            Order::Blocks(each) => return self.by_blocks(round, &positions, each),
            Order::Abba if round.is_multiple_of(2) => positions.reverse(),
            Order::Abba | Order::InTurn => {}
        }
        positions
    }

    fn by_blocks(&self, round: u32, positions: &[usize], each: usize) -> Vec<usize> {
        let mut choices = self.choices(round);
        let mut blocks: Vec<Vec<usize>> = positions.chunks(each.max(1)).map(<[usize]>::to_vec).collect();
        blocks.shuffle(&mut choices);
        for block in &mut blocks {
            block.shuffle(&mut choices);
        }
        blocks.concat()
    }

    /// The seed of this round's trials.
    pub fn trial_seed(&self, round: u32) -> u64 {
        let mut choices = self.choices(round);
        choices.set_word_pos(1 << 32);
        choices.random()
    }

    /// One stream a round: a round's choices do not depend on how many earlier rounds drew.
    fn choices(&self, round: u32) -> ChaCha8Rng {
        let mut choices = ChaCha8Rng::seed_from_u64(self.seed);
        choices.set_stream(u64::from(round));
        choices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(order: Order, seed: u64) -> Vec<Vec<usize>> {
        let plan = Plan { rounds: 3, warmup: 1, order, seed, time_limit: None };
        (1..=plan.all_rounds()).map(|round| plan.positions(round, 3)).collect()
    }

    #[test]
    fn a_seed_fixes_the_order_of_every_round() {
        assert_eq!(orders(Order::Shuffled, 42), orders(Order::Shuffled, 42));
        assert_eq!(orders(Order::Shuffled, 42), [[0, 2, 1], [1, 2, 0], [1, 0, 2], [2, 0, 1]]);
        assert_ne!(orders(Order::Shuffled, 42), orders(Order::Shuffled, 43));
    }

    #[test]
    fn abba_turns_every_second_round_and_in_turn_none() {
        assert_eq!(orders(Order::Abba, 42), [[0, 1, 2], [2, 1, 0], [0, 1, 2], [2, 1, 0]]);
        assert_eq!(orders(Order::InTurn, 42), [[0, 1, 2]; 4]);
    }

    #[test]
    fn blocks_stay_together_and_are_shuffled_within_and_among_each_other() {
        let plan = Plan { rounds: 20, warmup: 0, order: Order::Blocks(4), seed: 42, time_limit: None };
        let orders: Vec<Vec<usize>> = (1..=20).map(|round| plan.positions(round, 8)).collect();
        for order in &orders {
            let first = order[0] / 4;
            assert!(order[..4].iter().all(|at| at / 4 == first), "{order:?}");
            assert!(order[4..].iter().all(|at| at / 4 == 1 - first), "{order:?}");
        }
        assert!(orders.iter().any(|order| order[0] < 4) && orders.iter().any(|order| order[0] >= 4));
        assert!(orders.iter().any(|order| order[0] != order[1] + 1 && order[0] + 1 != order[1]));
    }

    #[test]
    fn every_order_is_met_equally_often_over_many_rounds() {
        let plan = Plan { rounds: 6000, warmup: 0, order: Order::Shuffled, seed: 7, time_limit: None };
        let mut met = std::collections::BTreeMap::new();
        for round in 1..=plan.all_rounds() {
            *met.entry(plan.positions(round, 3)).or_insert(0) += 1;
        }
        assert_eq!(met.len(), 6);
        assert!(met.values().all(|&times| (900..1100).contains(&times)), "{met:?}");
    }

    #[test]
    fn a_rounds_seed_is_its_own() {
        let plan = Plan { rounds: 7, warmup: 1, order: Order::InTurn, seed: 42, time_limit: None };
        assert_eq!(plan.trial_seed(3), plan.trial_seed(3));
        assert_ne!(plan.trial_seed(3), plan.trial_seed(4));
    }
}
