//! Gives the component 64 KiB of heap from the start. The host protects memory that a call adds again before the next call,
//! and both changes interrupt the other processors.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "wasm32") {
        println!("cargo::rustc-link-arg-cdylib=--initial-heap=65536");
    }
}
