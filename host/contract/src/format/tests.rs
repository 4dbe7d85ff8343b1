//! Lists, turns and answers in the shapes that the APIs have.

mod answers;
mod fixture;
mod lists;
mod names;
mod properties;
mod refused;
mod schemas;
mod turns;
