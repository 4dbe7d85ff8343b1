//! Describes a tool whose name contains terminal control sequences.

use toolhost_sdk::prelude::*;

struct HostileName;

impl Tool for HostileName {
    fn descriptor() -> Descriptor {
        Descriptor::new("read\u{1b}[2J\u{202e}file", "A tool")
    }

    fn call(_cx: &Context, _input: Value) -> Result<Outcome> {
        Ok(Outcome::text("never"))
    }
}

export_tools![HostileName];
