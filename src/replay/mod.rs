//! Floor 3: what is copied (`template`, `shape`), how (`policy`), the copy itself (`engine`), and the proof that the
//! copy equals its source (`verify`). It replays one copy into one new directory; how often, where, in what order and
//! beside whom is decided above. It prints nothing and removes nothing.

pub mod engine;
pub mod means;
pub mod policy;
pub mod shape;
pub mod template;
pub mod verify;
