//! A hook that panics over what it is shown.

use toolhost_sdk::prelude::*;

fn panic(_: &Context, call: &HookCall, _: &Outcome) -> After {
    panic!("no idea what {} is", call.tool)
}

export_hooks! { after: panic }
