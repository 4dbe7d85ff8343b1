//! Describes guest crashes with readable function names.

use std::collections::HashMap;
use std::fmt::Write as _;

use toolhost_contract::text;
use wasmtime::WasmBacktrace;

/// Runtime functions that only propagate a panic or lead to the tool's code.
const RUNTIME: [&str; 8] = [
    "std::", "core::", "alloc::", "<core::", "<alloc::", "__rustc", "rust_", "abort",
];
/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 200;
/// Number of captured frames; see `wasm_backtrace_max_frames` in `engine.rs`.
pub(crate) const FRAMES: usize = 20;
/// A function that occurs this often in a full backtrace is in unbounded recursion.
const RECURSION_COUNT: usize = 3;

/// The root cause and the running guest functions, innermost first.
pub(crate) fn describe(error: &wasmtime::Error) -> String {
    let mut description = format!("{:#}", error.root_cause());
    let frames = error
        .downcast_ref::<WasmBacktrace>()
        .map_or(&[][..], WasmBacktrace::frames);
    let names: Vec<String> = frames
        .iter()
        .filter_map(|frame| frame.func_name())
        .map(demangled)
        .collect();
    let is_own = |name: &&String| !RUNTIME.iter().any(|prefix| name.starts_with(prefix));
    let mut shown: Vec<&String> = names.iter().filter(is_own).collect();
    if shown.is_empty() {
        shown = names.iter().collect();
    }
    for name in shown {
        let _ = write!(description, "\n  in {name}");
    }
    description
}

/// The demangled name without its hash.
fn demangled(symbol: &str) -> String {
    text::escape_line(&format!("{:#}", rustc_demangle::demangle(symbol)), MAX_NAME)
}

pub(crate) fn is_deep_recursion(error: &wasmtime::Error) -> bool {
    let trace = error.downcast_ref::<WasmBacktrace>();
    trace.is_some_and(|trace| {
        let functions = trace.frames().iter().map(wasmtime::FrameInfo::func_index);
        is_repeated(functions)
    })
}

fn is_repeated(functions: impl ExactSizeIterator<Item = u32>) -> bool {
    if functions.len() < FRAMES {
        return false;
    }
    let mut times: HashMap<u32, usize> = HashMap::new();
    functions.into_iter().any(|function| {
        let times = times.entry(function).or_default();
        *times += 1;
        *times >= RECURSION_COUNT
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_11_symbols_are_shown_as_their_authors_wrote_them() {
        for (symbol, name) in [
            (
                "_ZN5files4read9read_file17h0123456789abcdefE",
                "files::read::read_file",
            ),
            ("_RNvC5files9read_file", "files::read_file"),
            ("main", "main"),
            ("a\u{1b}[2J", "a\\u{1b}[2J"),
        ] {
            assert_eq!(demangled(symbol), name);
        }
    }

    #[test]
    fn c_11_a_function_that_fills_the_trace_is_recursion() {
        let cycle = |length: u32| (0..20).map(move |frame| frame % length);
        assert!(is_repeated(cycle(1)));
        assert!(is_repeated(cycle(6)));
        assert!(!is_repeated(cycle(20)));
        // A complete backtrace shows the outermost frame, so the recursion is not deep.
        assert!(!is_repeated([1, 1, 1].into_iter()));
    }
}
