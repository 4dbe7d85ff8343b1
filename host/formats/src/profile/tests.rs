//! Tests of profiles: translation of lists, calls and results.

mod calls;
mod descriptors;
mod envelope;
mod fixture;
mod lists;
mod names;
mod notes;
mod results;
mod texts;
