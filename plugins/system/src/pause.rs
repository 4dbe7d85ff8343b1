//! `sleep`: waits, with cancellation.

use std::thread;
use std::time::{Duration, Instant};

use toolhost_sdk::prelude::*;

/// Limit of the delay until cancellation is noticed.
const SLICE: Duration = Duration::from_millis(50);

/// Duration of the pause.
#[data]
pub struct Slept {
    /// Seconds waited.
    slept: f64,
}

/// Wait for a number of seconds.
#[tool(
    reads,
    plain_text,
    requires = [],
    category = "system",
    kind = "other",
    icon = "hourglass",
    timeout = "310s",
    concurrency = "parallel",
    tags = ["wait", "pause"],
    output = Slept,
    example(description = "A second and a half", input = r#"{"duration": 1.5}"#),
)]
pub fn sleep(
    cx: &Context,
    /// Seconds, more than 0.
    #[arg(min = 0, max = 300, aliases = ["seconds"])]
    duration: f64,
) -> Result<Outcome> {
    let wanted = Duration::try_from_secs_f64(duration).unwrap_or_default();
    if wanted.is_zero() {
        let message = format!("cannot wait {duration} seconds; use more than 0 and at most 300");
        return Err(Error::invalid_input(message).code("invalid_duration"));
    }
    // Failing now is better than being stopped later.
    if wanted > cx.remaining() {
        let message = format!(
            "cannot wait {duration} seconds: this call has only {:.0} left",
            cx.remaining().as_secs_f64()
        );
        return Err(Error::invalid_input(message)
            .code("invalid_duration")
            .recommend("wait in several shorter calls"));
    }
    let start = Instant::now();
    let mut reported = Duration::ZERO;
    while let Some(left) = wanted
        .checked_sub(start.elapsed())
        .filter(|left| !left.is_zero())
    {
        cx.check()?;
        let seconds = Duration::from_secs(start.elapsed().as_secs());
        if seconds > reported {
            reported = seconds;
            cx.progress_of(reported.as_secs_f64(), duration);
        }
        thread::sleep(left.min(SLICE));
    }
    let slept = (start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
    Ok(Outcome::text(format!("waited {slept} seconds")).structured(&Slept { slept }))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use toolhost_sdk::testing;

    use super::*;

    fn check(cx: &Context, duration: f64, expected: Expect) {
        let error = testing::call::<sleep>(cx, json!({"duration": duration})).unwrap_err();
        expected.assert_eq(&testing::error_line(&error));
    }

    // R-361
    #[test]
    fn it_waits_no_less_than_it_says() {
        let outcome = testing::call::<sleep>(&Context::test(), json!({"duration": 0.001})).unwrap();
        assert!(outcome.structured.unwrap()["slept"].as_f64() >= Some(0.001));
    }

    #[test]
    fn it_can_be_called_off() {
        let patient = || Context::test().with_remaining(Duration::from_secs(310));
        check(
            &patient().cancelled_after(0),
            300.0,
            expect!["Interrupted cancelled: the call was cancelled"],
        );
        check(
            &patient().cancelled_after(1),
            300.0,
            expect!["Interrupted cancelled: the call was cancelled"],
        );
    }

    #[test]
    fn durations_have_limits() {
        check(
            &Context::test(),
            0.0,
            expect![
                "InvalidInput invalid_duration: cannot wait 0 seconds; use more than 0 and at most 300"
            ],
        );
        check(
            &Context::test(),
            -1.0,
            expect!["InvalidInput invalid_input: `duration`: -1.0 is less than the minimum of 0"],
        );
        check(
            &Context::test(),
            301.0,
            expect![
                "InvalidInput invalid_input: `duration`: 301.0 is more than the maximum of 300"
            ],
        );
        check(
            &Context::test().with_remaining(Duration::from_secs(10)),
            11.0,
            expect![
                "InvalidInput invalid_duration: cannot wait 11 seconds: this call has only 10 left"
            ],
        );
    }

    #[test]
    fn it_needs_no_capability() {
        assert!(sleep::descriptor().requires.is_empty());
        testing::check_examples::<sleep>().unwrap();
    }
}
