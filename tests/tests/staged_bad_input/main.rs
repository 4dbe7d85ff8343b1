//! Bad input for staged writes, end to end: whatever is found on a disk, is refused in our words or done, and nothing
//! is lost.

mod disk;
mod many;
mod meanwhile;
mod names;
mod reviewed;
mod scene;
