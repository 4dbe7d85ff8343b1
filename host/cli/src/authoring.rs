//! Builds, packs and tests plugins for their authors.

mod build;
mod examples;
mod target;

pub use build::{build, pack_project};
pub use examples::{ExampleResult, ExampleVerdict, run_examples};
pub use target::Target;
