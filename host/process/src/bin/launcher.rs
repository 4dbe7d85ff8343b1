//! The warden and launcher as a program of its own: for tests, and for an embedder whose program cannot play them.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolhost_process::launch(std::env::args_os().skip(1))
}
