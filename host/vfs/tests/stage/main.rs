//! A single binary for all tests of the stage.

mod attacks;
mod bad_input;
mod changes;
mod compare;
mod limits;
mod props;
mod reads;
mod replace;
mod scripts;
mod support;
