//! The text of a script: its places, and how the parser reads it.

use std::io::{self, Read};
use std::ops::ControlFlow;

use boa_engine::JsResult;
use boa_engine::ast::function::FunctionBody;
use boa_engine::ast::visitor::{VisitWith as _, Visitor};
use boa_engine::ast::{Expression, Position, Spanned as _, Statement, StatementListItem};
use boa_engine::interner::Interner;
use boa_engine::parser::{Parser, Source};

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

/// A script in the form that the engine gets.
pub struct Code<'text> {
    given: &'text str,
    form: Form,
}

enum Form {
    Script,
    /// The body of an async function, in which `await` and `return` can be used. Its last statement gets a `return` if it
    /// is an expression.
    AsyncBody {
        last: Option<Position>,
    },
}

const BEFORE: &str = "(async () => {";
const RETURN: &str = "return ";
const AFTER: &str = "\n})()";

impl<'text> Code<'text> {
    /// The name of the script in the engine's stacks of calls.
    pub const NAME: &'static str = "script";

    pub fn new(given: &'text str) -> Self {
        Self {
            given,
            form: Form::Script,
        }
    }

    /// The script as the body of an async function.
    pub fn async_body(given: &'text str, body: &FunctionBody) -> Self {
        let last = match body.statements().last() {
            Some(StatementListItem::Statement(statement)) => match &**statement {
                Statement::Expression(expression) => Some(start(expression)),
                _ => None,
            },
            _ => None,
        };
        Self {
            given,
            form: Form::AsyncBody { last },
        }
    }

    /// What the engine gets.
    pub fn text(&self) -> String {
        match self.form {
            Form::Script => self.given.to_owned(),
            Form::AsyncBody { last } => {
                let last = last.and_then(|last| offset(self.given, last));
                let (before, after) = self.given.split_at(last.unwrap_or_default());
                let keyword = last.map_or("", |_| RETURN);
                [BEFORE, before, keyword, after, AFTER].concat()
            }
        }
    }

    /// Whether a place in [`text`](Self::text) belongs to the script as given.
    pub fn contains(&self, line: usize, column: usize) -> bool {
        matches!(self.form, Form::Script)
            || ((line, column) > (1, BEFORE.len()) && line <= self.given.split('\n').count())
    }

    /// Line and column in the script as given, from those in [`text`](Self::text).
    pub fn place(&self, line: usize, column: usize) -> (usize, usize) {
        let mut column = column;
        if let Form::AsyncBody { last } = self.form {
            if line == 1 {
                column = column.saturating_sub(BEFORE.len());
            }
            let (last_line, last_column) = last.map_or((0, 0), line_and_column);
            if line == last_line && column > last_column {
                column = column.saturating_sub(RETURN.len()).max(last_column);
            }
        }
        (line, column.max(1))
    }

    /// A line of the script as given, from 1.
    pub fn line(&self, line: usize) -> Option<&'text str> {
        self.given.lines().nth(line.checked_sub(1)?)
    }
}

/// Parses a script as the body of an async function; `None` if it has no word that is only valid there.
pub fn parse_async_body(given: &str) -> Option<JsResult<FunctionBody>> {
    if !given.contains("await") && !given.contains("return") {
        return None;
    }
    let mut parser = Parser::new(Source::from_reader(Guarded::new(given), None));
    let body = parser.parse_function_body(&mut Interner::default(), false, true);
    Some(body.map_err(Into::into))
}

/// Where an expression starts. The parser's span of `f(x)` starts at the bracket.
fn start(expression: &Expression) -> Position {
    struct Earliest(Position);

    impl<'ast> Visitor<'ast> for Earliest {
        type BreakTy = ();

        fn visit_expression(&mut self, expression: &'ast Expression) -> ControlFlow<()> {
            self.0 = self.0.min(expression.span().start());
            expression.visit_with(self)
        }
    }

    let mut earliest = Earliest(expression.span().start());
    let _ = earliest.visit_expression(expression);
    earliest.0
}

/// The byte offset of a position of the parser, which counts characters and all line terminators of the language.
fn offset(text: &str, position: Position) -> Option<usize> {
    let wanted = line_and_column(position);
    let (mut line, mut column) = (1, 1);
    let mut characters = text.char_indices().peekable();
    while let Some((offset, character)) = characters.next() {
        if (line, column) == wanted {
            return Some(offset);
        }
        match character {
            '\r' if characters.peek().is_some_and(|(_, next)| *next == '\n') => {}
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => (line, column) = (line + 1, 1),
            _ => column += 1,
        }
    }
    None
}

fn line_and_column(position: Position) -> (usize, usize) {
    (
        position.line_number() as usize,
        position.column_number() as usize,
    )
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
