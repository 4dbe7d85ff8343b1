//! A hook that never returns.

use toolhost_sdk::prelude::*;

fn spin(_: &Context, _: &HookCall) -> Before {
    loop {
        std::hint::spin_loop();
    }
}

export_hooks! { before: spin }
