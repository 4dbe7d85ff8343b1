//! One module for each version of the contract with plugins. Behaviour lives once, in the newest.

pub mod v0_1;
