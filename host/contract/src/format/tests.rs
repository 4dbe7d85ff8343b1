//! Tests of tool lists, turns and results in each format.

mod answers;
mod fixture;
mod lists;
mod names;
mod properties;
mod refused;
mod schemas;
mod turns;
