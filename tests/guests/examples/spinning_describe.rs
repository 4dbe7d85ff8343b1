//! Loops forever in `describe`.

use toolhost_sdk::prelude::*;

struct Spinning;

impl Tool for Spinning {
    fn descriptor() -> Descriptor {
        loop {
            std::hint::spin_loop();
        }
    }

    fn call(_cx: &Context, _input: Value) -> Result<Outcome> {
        Ok(Outcome::text("never"))
    }
}

export_tools![Spinning];
