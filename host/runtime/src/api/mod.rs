//! Versions of the plugin contract, one module each. Shared behavior is implemented in the newest.

pub mod v0_1;
