//! Bad input for staged writes, end to end: unusual files are either refused with a specific error or handled, and no
//! data is lost.

mod disk;
mod many;
mod meanwhile;
mod names;
mod reviewed;
mod scene;
