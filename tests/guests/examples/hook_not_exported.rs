//! A tool that lists a hook which the component does not export.

use toolhost_sdk::prelude::*;

/// Do nothing.
#[tool(pure, hooks = ["pre-tool-use"])]
fn hook_not_exported() {}

export_tools![hook_not_exported];
