//! Tests of profiles: translation of lists, calls and results.

mod calls;
mod fixture;
mod lists;
mod names;
mod results;
mod shown;
mod texts;
