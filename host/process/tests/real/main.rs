//! Tests of real programs in a real sandbox: what they can and cannot do, and that no process remains.

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
