//! Asking the drives under a place.

use super::Place;
use crate::storage::{self, Commands};

impl Place {
    /// Asks every disk for its own view of its write cache: by ioctl, where this process may. That of a simulated drive
    /// is known.
    pub fn ask_drives(&mut self, commands: &impl Commands) {
        if self.simulated.is_none() {
            storage::ask_drives(&mut self.stack, commands);
        }
    }
}
