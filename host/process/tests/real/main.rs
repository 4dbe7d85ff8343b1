//! Real programs under a real fence: what they can do, what they cannot, and that none of them is left behind.

mod death;
mod fence;
mod fixture;
mod jobs;
mod life;
mod network;
mod output;
mod pipes;
mod programs;
mod signals;
mod terminal;
