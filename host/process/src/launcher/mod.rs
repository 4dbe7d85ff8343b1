//! The helper processes: what the executable does when the host starts it as a warden or as a launcher.

mod descendants;
mod enter;
mod observe;
mod refused_calls;
mod warden;

use std::ffi::OsString;
use std::process::ExitCode;

pub const WATCH: &str = "watch";
pub const ENTER: &str = "enter";
pub const OBSERVE: &str = "observe";

pub use refused_calls::{ProgramAccess, numbers as observed_calls};

/// The main function of a warden or a launcher. Call it at the start of `main`, before any thread is started, if the
/// first argument is the hidden one of [`crate::Launcher`], with the arguments that follow it.
pub fn launch(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let role = match &args[..] {
        [role] => role.to_str(),
        _ => None,
    };
    let outcome = match role {
        Some(WATCH) => warden::run_warden(),
        Some(ENTER) => enter::run_launcher(),
        Some(OBSERVE) => observe::run_observer(),
        _ => Err(std::io::Error::other(
            "this role can only be started by the host",
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
