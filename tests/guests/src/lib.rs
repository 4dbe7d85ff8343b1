//! Misbehaving guests, one example each. `tests/tests/sandbox.rs` calls every one of them.
