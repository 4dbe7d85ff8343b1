//! `console`: the text output of a script, bounded while it is written.

use std::cell::RefCell;
use std::rc::Rc;

use boa_engine::object::ObjectInitializer;
use boa_engine::property::Attribute;
use boa_engine::{Context, JsResult, JsValue, NativeFunction, js_string};

use crate::json;

/// Limit of the kept output in bytes. Known MCP clients show their model this much without cuts, together with a result.
pub const MOST_BYTES: usize = 30_000;
/// Limit of one argument in bytes.
const MOST_BYTES_OF_VALUE: usize = 10_000;

/// What a script has printed: the beginning, and the number of bytes after it.
#[derive(Debug, Default)]
pub struct Console {
    text: String,
    /// Bytes that were printed and not kept.
    omitted: u64,
}

impl Console {
    fn push(&mut self, text: &str) {
        // After the first cut nothing more is kept, so that the kept output has no gaps.
        let room = if self.omitted > 0 {
            0
        } else {
            MOST_BYTES.saturating_sub(self.text.len())
        };
        let kept = &text[..text.floor_char_boundary(room)];
        self.text.push_str(kept);
        self.omitted += (text.len() - kept.len()) as u64;
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn omitted(&self) -> u64 {
        self.omitted
    }
}

/// The console of one script, shared by the functions of `console`.
pub type SharedConsole = Rc<RefCell<Console>>;

/// Defines `console` with its printing functions and `print`.
pub fn install(context: &mut Context) -> JsResult<()> {
    context.insert_data(SharedConsole::default());
    let mut object = ObjectInitializer::new(context);
    for name in ["log", "info", "debug", "warn", "error"] {
        object.function(NativeFunction::from_fn_ptr(log), js_string!(name), 0);
    }
    let console = object.build();
    context.register_global_property(js_string!("console"), console, Attribute::all())?;
    context.register_global_callable(js_string!("print"), 0, NativeFunction::from_fn_ptr(log))
}

pub fn of(context: &Context) -> SharedConsole {
    context
        .get_data::<SharedConsole>()
        .cloned()
        .unwrap_or_default()
}

fn log(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let console = of(context);
    for (nth, argument) in arguments.iter().enumerate() {
        let text = match argument.as_string() {
            // A long text is counted as a whole.
            Some(text) => text.to_std_string_lossy(),
            None => json::show(argument, MOST_BYTES_OF_VALUE, context)?,
        };
        let mut console = console.borrow_mut();
        if nth > 0 {
            console.push(" ");
        }
        console.push(&text);
    }
    console.borrow_mut().push("\n");
    Ok(JsValue::undefined())
}
