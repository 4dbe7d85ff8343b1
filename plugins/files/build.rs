//! Gives the component a page of heap from the start. Memory that a call adds is protected again before the next one, and
//! both changes interrupt all processors.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "wasm32") {
        println!("cargo::rustc-link-arg-cdylib=--initial-heap=65536");
    }
}
