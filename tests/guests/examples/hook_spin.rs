//! A hook that never lets a call go.

use toolhost_sdk::prelude::*;

fn spin(_: &Context, _: &HookCall) -> Before {
    loop {
        std::hint::spin_loop();
    }
}

export_hooks! { before: spin }
