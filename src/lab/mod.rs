//! Floor 5: the conductor, which runs arms in interleaved rounds and makes a document of what they say, and one adapter
//! for each kind of arm. The conductor knows no kind; an adapter knows nothing of rounds. Nothing here formats a table
//! or prints.

pub mod arm;
pub mod plan;
#[cfg(any())]
pub mod conduct;
pub mod compare;

pub use arm::{Arm, Halt, Trial};
#[cfg(any())]
pub use conduct::{Run, conduct};
pub use plan::{Order, Plan};
