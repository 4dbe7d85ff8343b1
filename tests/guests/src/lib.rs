//! Misbehaving guests, one per example. `tests/tests/sandbox.rs` calls each of them.
