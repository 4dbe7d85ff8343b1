//! A hook that returns oversized values.

use toolhost_sdk::prelude::*;

fn reason(_: &Context, _: &HookCall) -> Before {
    Before::deny("x".repeat(1_000_000))
}

fn flood(_: &Context, _: &HookCall, _: &Outcome) -> After {
    After::text("x".repeat(100_000_000))
}

export_hooks! { before: reason, after: flood }
