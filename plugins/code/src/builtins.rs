//! Replacements for functions of the engine that use too much time or memory, or end the component in place of an error.

use boa_engine::object::FunctionObjectBuilder;
use boa_engine::property::PropertyDescriptor;
use boa_engine::{
    Context, JsArgs as _, JsNativeError, JsObject, JsResult, JsString, JsValue, NativeFunction,
    js_string,
};
use toolhost_sdk::serde_json;

/// Limit of a string that `repeat`, `padStart` or `padEnd` makes, in UTF-16 units.
const MOST_UNITS: f64 = 33_554_432.0;

/// Replaces the functions. A replacement checks its arguments and calls the original.
pub fn install(context: &mut Context) -> JsResult<()> {
    let json = context.intrinsics().objects().json();
    replace(&json, "parse", parse, context)?;
    let strings = context.intrinsics().constructors().string().prototype();
    replace(&strings, "repeat", repeat, context)?;
    replace(&strings, "padStart", pad, context)?;
    replace(&strings, "padEnd", pad, context)
}

type Replacement = fn(&JsValue, &[JsValue], &JsObject, &mut Context) -> JsResult<JsValue>;

fn replace(
    object: &JsObject,
    name: &str,
    replacement: Replacement,
    context: &mut Context,
) -> JsResult<()> {
    let name = JsString::from(name);
    let Some(original) = object.get(name.clone(), context)?.as_object() else {
        return Ok(());
    };
    let length = original.get(js_string!("length"), context)?;
    let length = length.to_length(context)?.try_into().unwrap_or_default();
    let function = NativeFunction::from_copy_closure_with_captures(
        move |this, arguments, original: &JsObject, context| {
            replacement(this, arguments, original, context)
        },
        original,
    );
    let function = FunctionObjectBuilder::new(context.realm(), function)
        .name(name.clone())
        .length(length)
        .build();
    let property = PropertyDescriptor::builder()
        .value(function)
        .writable(true)
        .enumerable(false)
        .configurable(true);
    object.define_property_or_throw(name, property, context)?;
    Ok(())
}

/// `JSON.parse`. The original compiles the text as a script, which takes many times the time and memory; both accept what
/// serde_json accepts.
fn parse(
    this: &JsValue,
    arguments: &[JsValue],
    original: &JsObject,
    context: &mut Context,
) -> JsResult<JsValue> {
    if arguments.get_or_undefined(1).is_callable() {
        return original.call(this, arguments, context);
    }
    let text = arguments.get_or_undefined(0).to_string(context)?;
    let parsed = text
        .to_std_string()
        .map_err(|error| error.to_string())
        .and_then(|text| {
            serde_json::from_str::<serde_json::Value>(&text).map_err(|error| error.to_string())
        });
    match parsed {
        Ok(value) => JsValue::from_json(&value, context),
        Err(reason) => Err(JsNativeError::syntax()
            .with_message(format!("JSON.parse: {reason}"))
            .into()),
    }
}

fn repeat(
    this: &JsValue,
    arguments: &[JsValue],
    original: &JsObject,
    context: &mut Context,
) -> JsResult<JsValue> {
    let text = this.require_object_coercible()?.to_string(context)?;
    let count = arguments.get_or_undefined(0).to_number(context)?;
    #[expect(clippy::cast_precision_loss, reason = "an approximate limit")]
    check_length(text.len() as f64 * count)?;
    original.call(&text.into(), &[count.into()], context)
}

fn pad(
    this: &JsValue,
    arguments: &[JsValue],
    original: &JsObject,
    context: &mut Context,
) -> JsResult<JsValue> {
    let text = this.require_object_coercible()?.to_string(context)?;
    let length = arguments.get_or_undefined(0).to_number(context)?;
    check_length(length)?;
    let fill = arguments.get_or_undefined(1).clone();
    original.call(&text.into(), &[length.into(), fill], context)
}

fn check_length(units: f64) -> JsResult<()> {
    if units.is_finite() && units > MOST_UNITS {
        return Err(JsNativeError::range()
            .with_message(format!(
                "a string of {units} characters is too long; the limit is {MOST_UNITS}"
            ))
            .into());
    }
    Ok(())
}
