//! The warden and launcher as a separate executable, for tests and for embedders whose own executable cannot act as
//! them.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolhost_process::launch(std::env::args_os().skip(1))
}
