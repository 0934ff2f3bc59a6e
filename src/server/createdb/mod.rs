//! CREATE and DROP DATABASE on a real server: the strategies, the template, a trial, where its time goes, what it calls,
//! and whether two servers can be compared. What is repeated, and how often, is decided elsewhere.

pub mod database;
pub mod strategy;
pub mod template;

pub mod attribution;
pub mod calls;
pub mod dirt;
pub mod trial;

pub mod fairness;

pub use strategy::Strategy;
