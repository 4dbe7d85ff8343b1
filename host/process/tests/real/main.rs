//! Tests of real programs in a real sandbox: what they can and cannot do, and that no process remains.

mod death;
mod fixture;
mod jobs;
mod lifecycle;
mod network;
mod observed;
mod output;
mod piped_sandbox;
mod pipes;
mod programs;
mod sandbox;
mod signals;
mod terminal;
