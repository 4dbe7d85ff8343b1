//! A hook that panics on every call.

use toolhost_sdk::prelude::*;

fn panic(_: &Context, call: &HookCall, _: &Outcome) -> After {
    panic!("no idea what {} is", call.tool)
}

export_hooks! { after: panic }
