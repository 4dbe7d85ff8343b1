//! Values of a script as JSON: strictly for its result, and with placeholders for its output.

use boa_engine::builtins::error::Error as ErrorObject;
use boa_engine::builtins::map::ordered_map::OrderedMap;
use boa_engine::builtins::promise::Promise;
use boa_engine::builtins::proxy::Proxy;
use boa_engine::builtins::regexp::RegExp;
use boa_engine::builtins::set::ordered_set::OrderedSet;
use boa_engine::builtins::typed_array::TypedArray;
use boa_engine::property::PropertyKey;
use boa_engine::{
    Context, JsBigInt, JsError, JsObject, JsResult, JsString, JsValue, JsVariant, js_string,
};
use toolhost_sdk::Value;
use toolhost_sdk::serde_json::{Map, Number};
use toolhost_sdk::text;

/// Levels of a value.
const MOST_LEVELS: usize = 64;

/// Why a value has no JSON form.
#[derive(Debug)]
pub enum Refusal {
    /// The reason, which names the place in the value.
    Value(String),
    /// Code of the script that ran meanwhile (`toJSON`, a getter) threw.
    Thrown(JsError),
}

impl From<JsError> for Refusal {
    fn from(error: JsError) -> Self {
        Self::Thrown(error)
    }
}

/// A value as `JSON.stringify` writes it, of at most `most` bytes. What `JSON.stringify` would drop or change silently
/// is refused, except undefined members.
pub fn strict(value: &JsValue, most: usize, context: &mut Context) -> Result<Value, Refusal> {
    let mut writer = Writer::new(most, Mode::Strict);
    Ok(writer.write(value, context)?.unwrap_or_default())
}

/// A value as text for a reader: JSON, with placeholders such as `[Circular]` for what JSON cannot contain.
pub fn show(value: &JsValue, most: usize, context: &mut Context) -> JsResult<String> {
    if let Some(text) = primitive(value) {
        return Ok(text);
    }
    let mut writer = Writer::new(most, Mode::Placeholders);
    match writer.write(value, context) {
        Ok(Some(Value::String(text))) => Ok(text),
        Ok(written) => Ok(written.unwrap_or_default().to_string()),
        Err(Refusal::Value(reason)) => Ok(reason),
        Err(Refusal::Thrown(error)) => Err(error),
    }
}

fn primitive(value: &JsValue) -> Option<String> {
    match value.variant() {
        JsVariant::Undefined => Some("undefined".to_owned()),
        JsVariant::Null => Some("null".to_owned()),
        JsVariant::Float64(_) => Some(value.display().to_string()),
        JsVariant::BigInt(_) => Some(text::truncate(&value.display().to_string(), 1000)),
        JsVariant::Symbol(symbol) => Some(symbol.descriptive_string().to_std_string_lossy()),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Strict,
    Placeholders,
}

struct Writer {
    mode: Mode,
    /// Bytes that may still be written.
    room: usize,
    most: usize,
    /// The objects around the current value, with the keys that lead to it.
    path: Vec<(JsObject, String)>,
}

impl Writer {
    fn new(most: usize, mode: Mode) -> Self {
        Self {
            mode,
            room: most,
            most,
            path: Vec::new(),
        }
    }

    /// `None` for undefined.
    fn write(&mut self, value: &JsValue, context: &mut Context) -> Result<Option<Value>, Refusal> {
        Ok(Some(match value.variant() {
            JsVariant::Undefined => return Ok(None),
            JsVariant::Null => self.charged(Value::Null)?,
            JsVariant::Boolean(value) => self.charged(Value::Bool(value))?,
            JsVariant::Integer32(number) => self.charged(Value::from(number))?,
            JsVariant::Float64(number) => match to_number(number) {
                Some(number) => self.charged(Value::Number(number))?,
                None => self.refuse(
                    &value.display().to_string(),
                    "return null or a string instead",
                )?,
            },
            JsVariant::String(string) => self.string(&string)?,
            JsVariant::BigInt(_) => {
                let shown = text::truncate(&value.display().to_string(), 40);
                self.refuse(
                    &format!("the BigInt {shown}"),
                    "convert it with String(value) or Number(value)",
                )?
            }
            JsVariant::Symbol(symbol) => {
                let shown = text::inline(&symbol.descriptive_string().to_std_string_lossy(), 40);
                self.refuse(&format!("the symbol {shown}"), "use a string instead")?
            }
            JsVariant::Object(object) => return self.object(&object, context),
        }))
    }

    fn object(
        &mut self,
        object: &JsObject,
        context: &mut Context,
    ) -> Result<Option<Value>, Refusal> {
        if let Some((nth, _)) = self
            .path
            .iter()
            .enumerate()
            .find(|(_, (outer, _))| JsObject::equals(outer, object))
        {
            let what = match self.mode {
                Mode::Strict => format!("a reference to `{}`, which contains it", self.place(nth)),
                Mode::Placeholders => "[Circular]".to_owned(),
            };
            return self
                .refuse(&what, "return a value without cycles")
                .map(Some);
        }
        if self.path.len() >= MOST_LEVELS {
            let what = format!("a value nested more than {MOST_LEVELS} levels deep");
            return self
                .refuse(&what, "return a flatter value, or a string")
                .map(Some);
        }
        if self.mode == Mode::Placeholders && object.is::<ErrorObject>() {
            let shown = crate::failure::describe_error(object, context)?;
            return self.charged(Value::String(shown)).map(Some);
        }
        let method = object.get(js_string!("toJSON"), context)?;
        if let Some(method) = method.as_callable() {
            let replaced = method.call(
                &object.clone().into(),
                &[JsValue::from(js_string!(""))],
                context,
            )?;
            // A method that returns an object with a `toJSON` again is not called twice.
            return match replaced.as_object() {
                Some(inner) => self.members(&inner, context).map(Some),
                None => self.write(&replaced, context),
            };
        }
        self.members(object, context).map(Some)
    }

    fn members(&mut self, object: &JsObject, context: &mut Context) -> Result<Value, Refusal> {
        if let Some(primitive) = unboxed(object) {
            return Ok(self.write(&primitive, context)?.unwrap_or_default());
        }
        if let Some((what, advice)) = without_json(object) {
            return self.refuse(what, advice);
        }
        self.charge(2)?;
        self.path.push((object.clone(), String::new()));
        let written = if object.is_array() {
            self.items(object, context)
        } else {
            self.properties(object, context)
        };
        self.path.pop();
        written
    }

    fn items(&mut self, array: &JsObject, context: &mut Context) -> Result<Value, Refusal> {
        let length = array
            .get(js_string!("length"), context)?
            .to_length(context)?;
        let mut items = Vec::new();
        for index in 0..length {
            if self.is_full() {
                items.push(Value::String(format!("… {} more", length - index)));
                break;
            }
            self.set_key(format!("[{index}]"));
            let item = array.get(index, context)?;
            self.charge(usize::from(index > 0))?;
            let item = match self.write(&item, context)? {
                Some(item) => item,
                None => self.charged(Value::Null)?,
            };
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn properties(&mut self, object: &JsObject, context: &mut Context) -> Result<Value, Refusal> {
        let mut members = Map::new();
        for key in object.own_property_keys(context)? {
            let name = match &key {
                PropertyKey::Symbol(_) => continue,
                PropertyKey::String(name) => name.to_std_string_lossy(),
                PropertyKey::Index(index) => index.get().to_string(),
            };
            if !is_enumerable(object, &key, context)? {
                continue;
            }
            if self.is_full() {
                members.insert("…".to_owned(), Value::String("more".to_owned()));
                break;
            }
            self.set_key(format!(".{}", text::inline(&name, 40)));
            let member = object.get(key, context)?;
            if let Some(written) = self.write(&member, context)? {
                let comma = usize::from(!members.is_empty());
                self.charge(comma + json_length(&Value::from(name.as_str())) + 1)?;
                members.insert(name, written);
            }
        }
        Ok(Value::Object(members))
    }

    fn string(&mut self, string: &JsString) -> Result<Value, Refusal> {
        let string = string.to_std_string_lossy();
        if string.len() > self.room {
            if self.mode == Mode::Strict {
                return Err(self.too_large());
            }
            let kept = &string[..string.floor_char_boundary(self.room)];
            self.room = 0;
            return Ok(Value::String(format!(
                "{kept}… {} bytes more",
                string.len() - kept.len()
            )));
        }
        self.charged(Value::String(string))
    }

    /// The place of the current value, or of the `nth` object around it, as an expression.
    fn place(&self, levels: usize) -> String {
        let keys = self.path[..levels].iter().map(|(_, key)| key.as_str());
        let place: String = ["result"].into_iter().chain(keys).collect();
        text::truncate(&place, 200)
    }

    fn set_key(&mut self, key: String) {
        if let Some((_, last)) = self.path.last_mut() {
            *last = key;
        }
    }

    fn refuse(&mut self, what: &str, advice: &str) -> Result<Value, Refusal> {
        match self.mode {
            Mode::Strict => Err(Refusal::Value(format!(
                "`{}` is {what}, which is not JSON; {advice}",
                self.place(self.path.len())
            ))),
            Mode::Placeholders => {
                let shown = if what.starts_with('[') {
                    what.to_owned()
                } else {
                    format!("[{what}]")
                };
                self.charged(Value::String(shown))
            }
        }
    }

    fn charged(&mut self, value: Value) -> Result<Value, Refusal> {
        self.charge(json_length(&value))?;
        Ok(value)
    }

    fn charge(&mut self, bytes: usize) -> Result<(), Refusal> {
        if self.mode == Mode::Strict && bytes > self.room {
            return Err(self.too_large());
        }
        self.room = self.room.saturating_sub(bytes);
        Ok(())
    }

    fn too_large(&self) -> Refusal {
        Refusal::Value(format!(
            "the result has more than {} bytes; return less, or write it to a file with writeFile",
            self.most
        ))
    }

    /// A long value ends with a placeholder; a strict one is refused instead.
    fn is_full(&self) -> bool {
        self.mode == Mode::Placeholders && self.room == 0
    }
}

fn json_length(value: &Value) -> usize {
    value.to_string().len()
}

/// Integers of up to 64 bits have the digits of `JSON.stringify`: as many as identify the number, then zeros.
fn to_number(number: f64) -> Option<Number> {
    let digits = number.to_string();
    let integer = digits.parse::<i64>().map(Number::from);
    let integer = integer.or_else(|_| digits.parse::<u64>().map(Number::from));
    integer.ok().or_else(|| Number::from_f64(number))
}

/// Whether a number is the same in JavaScript.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a number that is rounded differs after both casts"
)]
pub fn is_exact(number: &Number) -> bool {
    match number.as_i128() {
        Some(integer) => (integer as f64) as i128 == integer,
        None => true,
    }
}

/// The primitive in a `new String`, `new Number`, `new Boolean` or `Object(1n)`.
fn unboxed(object: &JsObject) -> Option<JsValue> {
    if let Some(string) = object.downcast_ref::<JsString>() {
        Some(string.clone().into())
    } else if let Some(number) = object.downcast_ref::<f64>() {
        Some((*number).into())
    } else if let Some(boolean) = object.downcast_ref::<bool>() {
        Some((*boolean).into())
    } else {
        let bigint = object.downcast_ref::<JsBigInt>()?;
        Some(bigint.clone().into())
    }
}

/// Functions, which `JSON.stringify` drops, and objects whose data it does not write; with advice.
fn without_json(object: &JsObject) -> Option<(&'static str, &'static str)> {
    if object.is_callable() {
        Some(("a function", "call it, and return its result"))
    } else if object.is::<OrderedMap<JsValue>>() {
        Some(("a Map", "convert it with Object.fromEntries(map)"))
    } else if object.is::<OrderedSet>() {
        Some(("a Set", "convert it with Array.from(set)"))
    } else if object.is::<Promise>() {
        Some(("a Promise", "await it, or use Promise.all"))
    } else if object.is::<ErrorObject>() {
        Some(("an Error", "convert it with String(error)"))
    } else if object.is::<RegExp>() {
        Some(("a RegExp", "convert it with String(regexp)"))
    } else if object.is_ordinary()
        || object.is_array()
        || object.is::<Proxy>()
        || object.is::<TypedArray>()
    {
        None
    } else {
        // Iterators, buffers, weak collections.
        Some((
            "an object with internal data",
            "copy the data into an array or a plain object, such as with Array.from(iterator)",
        ))
    }
}

fn is_enumerable(object: &JsObject, key: &PropertyKey, context: &mut Context) -> JsResult<bool> {
    // An ordinary object answers from its properties; only a proxy has to be asked.
    let own = object.borrow().properties().get(key);
    match own {
        Some(descriptor) => Ok(descriptor.enumerable().unwrap_or(false)),
        None => object.has_own_property(key.clone(), context),
    }
}
