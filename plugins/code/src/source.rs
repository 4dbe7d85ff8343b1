//! The text of a script: its places, and how the parser reads it.

use std::io::{self, Read};

/// Limit of a script in bytes.
pub const MOST_BYTES: usize = 256 << 10;

/// Stack in linear memory that the parser may use, in bytes; on other targets frames are larger. In a component, some
/// constructs exhaust the machine stack of the host at twice this value, the others the stack of build.rs later.
const MOST_STACK: usize = if cfg!(target_arch = "wasm32") {
    640 << 10
} else {
    16 << 20
};

/// Message of the error that [`Guarded`] returns to the parser.
pub const TOO_DEEP: &str = "nested too deeply";

/// A script, as given or as the body of an async function, in which `await` and `return` can be used.
pub struct Code<'text> {
    given: &'text str,
    is_wrapped: bool,
}

const BEFORE: &str = "(async () => {";
const AFTER: &str = "\n})()";

impl<'text> Code<'text> {
    /// The name of the script in the engine's stacks of calls.
    pub const NAME: &'static str = "script";

    pub fn new(given: &'text str) -> Self {
        Self {
            given,
            is_wrapped: false,
        }
    }

    /// The script as the body of an async function, if it has words that are only valid there.
    pub fn wrapped(&self) -> Option<Self> {
        (self.given.contains("await") || self.given.contains("return")).then_some(Self {
            given: self.given,
            is_wrapped: true,
        })
    }

    /// What the engine gets.
    pub fn text(&self) -> String {
        if self.is_wrapped {
            [BEFORE, self.given, AFTER].concat()
        } else {
            self.given.to_owned()
        }
    }

    /// Line and column in the script as given, from those in [`text`](Self::text).
    pub fn place(&self, line: usize, column: usize) -> (usize, usize) {
        let before = if self.is_wrapped && line == 1 {
            BEFORE.len()
        } else {
            0
        };
        (line, column.saturating_sub(before).max(1))
    }

    /// A line of the script as given, from 1.
    pub fn line(&self, line: usize) -> Option<&'text str> {
        self.given.lines().nth(line.checked_sub(1)?)
    }
}

/// A reader of a script that fails when the parser is deep in its recursion.
///
/// The parser has no limit, but it reads the script while it recurses.
pub struct Guarded<'text> {
    rest: &'text [u8],
    /// Address of a local variable at the start.
    base: usize,
}

impl<'text> Guarded<'text> {
    pub fn new(text: &'text str) -> Self {
        Self {
            rest: text.as_bytes(),
            base: stack_address(),
        }
    }
}

impl Read for Guarded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.base.abs_diff(stack_address()) > MOST_STACK {
            return Err(io::Error::other(TOO_DEEP));
        }
        self.rest.read(buffer)
    }
}

/// The address of a local variable, which tells how far the stack has grown.
#[inline(never)]
fn stack_address() -> usize {
    let local = 0_u8;
    std::hint::black_box(&raw const local).addr()
}
