//! One program for all tests of the stage.

mod attacks;
mod changes;
mod compare;
mod limits;
mod props;
mod reads;
mod scripts;
mod support;
