//! What wit-bindgen makes of the contract. Nobody but `convert`, `export` and the host backend looks in here; it is
//! public because the expansion of `export_tools!` has to name it.

#![allow(
    clippy::pedantic,
    reason = "generated code keeps the generator's style"
)]

wit_bindgen::generate!({
    path: "../../wit/v0.1",
    world: "plugin",
    generate_all,
    pub_export_macro: true,
    default_bindings_module: "toolhost_sdk::bindings",
});
