//! Tools whose descriptors have members that the host enforces or forwards.

use std::time::Duration;

use toolhost_sdk::prelude::*;

/// Report progress every 100 ms, then nothing.
#[tool(pure, streams, inactivity_timeout = "1s")]
fn grows_silent(
    cx: &Context,
    /// Number of reports.
    reports: u32,
    /// Time without reports afterwards, in milliseconds.
    silence: u64,
) -> &'static str {
    for _ in 0..reports {
        cx.output("stdout", "tick\n");
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_millis(silence));
    "done"
}

/// Write a text to files.
#[tool(writes, sinks = ["/to"], sources = ["people"])]
fn deliver(
    /// The files, as the tool declares them.
    to: Vec<String>,
    /// The file that it really writes.
    really: String,
) -> Result<&'static str> {
    std::fs::write(&really, to.join(" "))?;
    Ok("delivered")
}

struct Described;

impl Tool for Described {
    fn descriptor() -> Descriptor {
        Descriptor::new("described", "Return a text.")
            .pure()
            .max_output_bytes(1_000)
            .input_schema(json!({
                "type": "object",
                "properties": {"bytes": {"type": "integer"}},
                "required": ["bytes"],
            }))
            .extra(json!({"color": "blue"}))
    }

    fn describe(environment: &[(String, String)]) -> Descriptor {
        let facts = environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let facts: Vec<String> = facts.collect();
        Descriptor {
            description: format!("Return a text ({}).", facts.join(", ")),
            ..Self::descriptor()
        }
    }

    fn call(_: &Context, input: Value) -> Result<Outcome> {
        let bytes = input["bytes"].as_u64().unwrap_or_default();
        Ok(Outcome::text(
            "x".repeat(usize::try_from(bytes).unwrap_or_default()),
        ))
    }
}

export_tools![grows_silent, deliver, Described];
