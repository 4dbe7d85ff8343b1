//! Tests of profiles: translation of lists, calls and results.

mod calls;
mod descriptors;
mod fixture;
mod lists;
mod names;
mod results;
mod texts;
