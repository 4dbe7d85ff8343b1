//! What wit-bindgen makes of the contract. Nobody but `convert`, `export` and the host backend looks in here; it is
//! public because the expansions of `export_tools!` and `export_hooks!` have to name it.

#![allow(
    clippy::pedantic,
    reason = "generated code keeps the generator's style"
)]

wit_bindgen::generate!({
    path: "../../wit/v0.1",
    world: "plugin-with-services",
    generate_all,
    pub_export_macro: true,
    default_bindings_module: "toolhost_sdk::bindings",
});

/// A world of its own: a component exports the hooks, the tools or both, just as its author wrote.
pub mod hook {
    wit_bindgen::generate!({
        path: "../../wit/v0.1",
        world: "hook",
        with: {
            "toolhost:plugin/types@0.1.0": crate::bindings::toolhost::plugin::types,
            "toolhost:plugin/host@0.1.0": crate::bindings::toolhost::plugin::host,
        },
        pub_export_macro: true,
        default_bindings_module: "toolhost_sdk::bindings::hook",
    });
}
