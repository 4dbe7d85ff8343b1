//! The other side: what this program does when the host starts it as a warden or as a launcher.

mod enter;
mod family;
mod warden;

use std::ffi::OsString;
use std::process::ExitCode;

pub const WATCH: &str = "watch";
pub const ENTER: &str = "enter";

/// The body of a warden or a launcher: call it first thing in `main`, before any thread, when the hidden first
/// argument of [`crate::Launcher`] is seen, with the arguments that follow it.
pub fn launch(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let role = match &args[..] {
        [role] => role.to_str(),
        _ => None,
    };
    let outcome = match role {
        Some(WATCH) => warden::watch(),
        Some(ENTER) => enter::enter(),
        _ => Err(std::io::Error::other(
            "this role is for the host to start, not for a person",
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("process launcher: {error}");
            ExitCode::FAILURE
        }
    }
}
