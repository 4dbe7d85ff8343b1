//! Tests of tool lists, turns and results in each format.

mod fixture;
mod lists;
mod names;
mod properties;
mod refused;
mod results;
mod schemas;
mod turns;
