//! Conversion between JSON and WIT values, in the form that `json_schema` describes.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Number, Value, json};
use wasmtime::component::types::{self, Field};
use wasmtime::component::{Type, Val};

use super::json_schema::MAX_SAFE_INTEGER;

/// Maximum number of values in the arguments of a call, including nested ones and bytes. wasmtime takes 40 bytes for
/// each. For results, `Limits::hostcall_bytes` has the same effect.
pub const MAX_VALUES: usize = 200_000;

/// Callers often omit the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An argument that does not fit its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValue {
    /// Members and indexes, the innermost first.
    path: Vec<String>,
    reason: String,
}

impl std::fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path: String = self.path.iter().rev().map(String::as_str).collect();
        write!(f, "{}: {}", path.trim_start_matches('.'), self.reason)
    }
}

impl InvalidValue {
    fn new(reason: impl Into<String>) -> Self {
        Self {
            path: Vec::new(),
            reason: reason.into(),
        }
    }

    fn below(mut self, segment: impl FnOnce() -> String) -> Self {
        self.path.push(segment());
        self
    }
}

/// Converts the input of a call into arguments.
pub fn arguments<'a>(
    input: &Value,
    parameters: impl Iterator<Item = (&'a str, &'a Type)>,
) -> Result<Vec<Val>, InvalidValue> {
    let mut left = Budget(MAX_VALUES);
    let values = parameters.map(|(name, ty)| left.member(input, name, ty));
    values.collect()
}

/// The number of values that may still be created.
struct Budget(usize);

impl Budget {
    fn take(&mut self, count: usize) -> Result<(), InvalidValue> {
        let left = self.0.checked_sub(count);
        self.0 = left.ok_or_else(|| {
            InvalidValue::new(format!(
                "the input has more than {MAX_VALUES} values or bytes"
            ))
        })?;
        Ok(())
    }

    /// A parameter or the field of a record. An absent member is an empty option.
    fn member(&mut self, object: &Value, name: &str, ty: &Type) -> Result<Val, InvalidValue> {
        let value = match (ty, object.get(name)) {
            (Type::Option(_), None) => self.take(1).map(|()| Val::Option(None)),
            (Type::Option(option), Some(value)) => match option.ty() {
                inner if value.is_null() && !matches!(inner, Type::Option(_)) => {
                    Ok(Val::Option(None))
                }
                inner => self.value(value, &inner).map(some),
            },
            (_, Some(value)) => self.value(value, ty),
            (_, None) => Err(InvalidValue::new("is required")),
        };
        value.map_err(|error| error.below(|| format!(".{name}")))
    }

    fn value(&mut self, value: &Value, ty: &Type) -> Result<Val, InvalidValue> {
        self.take(1)?;
        Ok(match ty {
            Type::Bool => Val::Bool(value.as_bool().ok_or_else(|| expected("true or false"))?),
            Type::S8 => Val::S8(integer(value)?),
            Type::U8 => Val::U8(integer(value)?),
            Type::S16 => Val::S16(integer(value)?),
            Type::U16 => Val::U16(integer(value)?),
            Type::S32 => Val::S32(integer(value)?),
            Type::U32 => Val::U32(integer(value)?),
            Type::S64 => Val::S64(integer(value)?),
            Type::U64 => Val::U64(integer(value)?),
            Type::Float32 => Val::Float32(single(value)?),
            Type::Float64 => Val::Float64(value.as_f64().ok_or_else(|| expected("a number"))?),
            Type::Char => {
                let mut chars = text(value)?.chars();
                match (chars.next(), chars.next()) {
                    (Some(char), None) => Val::Char(char),
                    _ => return Err(expected("one character")),
                }
            }
            Type::String => Val::String(text(value)?.to_owned()),
            Type::List(list) => match list.ty() {
                Type::U8 => self.bytes(value)?,
                item => Val::List(self.items(array(value)?, std::iter::repeat(item))?),
            },
            Type::Record(record) => {
                let fields = record.fields().map(|Field { name, ty }| {
                    let field = self.member(value, name, &ty)?;
                    Ok((name.to_owned(), field))
                });
                Val::Record(fields.collect::<Result<_, _>>()?)
            }
            Type::Tuple(tuple) => {
                let items = array(value)?;
                if items.len() != tuple.types().len() {
                    return Err(expected(&format!("{} items", tuple.types().len())));
                }
                Val::Tuple(self.items(items, tuple.types())?)
            }
            Type::Variant(variant) => self.variant(value, variant)?,
            Type::Enum(cases) => {
                let name = text(value)?;
                let is_known = cases.names().any(|known| known == name);
                Val::Enum(
                    is_known
                        .then(|| name.to_owned())
                        .ok_or_else(|| expected("a case"))?,
                )
            }
            Type::Option(_) if value.is_null() => Val::Option(None),
            Type::Option(option) => self.option(value, option)?,
            Type::Result(result) => self.result(value, result)?,
            Type::Flags(flags) => Val::Flags(self.flags(value, flags)?),
            // Functions with such types are not offered.
            Type::Own(_)
            | Type::Borrow(_)
            | Type::Future(_)
            | Type::Stream(_)
            | Type::ErrorContext
            | Type::Map(_)
            | Type::FixedLengthList(_) => return Err(expected("no value")),
        })
    }

    fn bytes(&mut self, value: &Value) -> Result<Val, InvalidValue> {
        let bytes = BASE64.decode(text(value)?);
        let bytes = bytes.map_err(|error| expected(&format!("base64: {error}")))?;
        self.take(bytes.len())?;
        Ok(Val::List(bytes.into_iter().map(Val::U8).collect()))
    }

    fn variant(&mut self, value: &Value, variant: &types::Variant) -> Result<Val, InvalidValue> {
        let tag = value.get("tag").and_then(Value::as_str);
        let case = variant.cases().find(|case| Some(case.name) == tag);
        let case = case.ok_or_else(|| expected("an object whose `tag` names a case"))?;
        let payload = match (&case.ty, value.get("val")) {
            (None, _) => None,
            (Some(_), None) => return Err(expected("`val`, the value of the case")),
            (Some(ty), Some(payload)) => {
                let payload = self.value(payload, ty);
                Some(payload.map_err(|error| error.below(|| ".val".to_owned()))?)
            }
        };
        Ok(Val::Variant(case.name.to_owned(), payload.map(Box::new)))
    }

    /// A value that is not `null`.
    fn option(&mut self, value: &Value, option: &types::OptionType) -> Result<Val, InvalidValue> {
        let inner = option.ty();
        let value = match inner {
            Type::Option(_) => value.get("some"),
            _ => Some(value),
        };
        let value = value.ok_or_else(|| expected("`some` or null"))?;
        self.value(value, &inner).map(some)
    }

    fn result(&mut self, value: &Value, result: &types::ResultType) -> Result<Val, InvalidValue> {
        Ok(match (value.get("ok"), value.get("err")) {
            (Some(ok), None) => Val::Result(Ok(self.payload(ok, result.ok())?)),
            (None, Some(err)) => Val::Result(Err(self.payload(err, result.err())?)),
            _ => return Err(expected("an object with `ok` or `err`")),
        })
    }

    fn items(
        &mut self,
        items: &[Value],
        types: impl Iterator<Item = Type>,
    ) -> Result<Vec<Val>, InvalidValue> {
        let items = items.iter().zip(types).enumerate();
        let items = items.map(|(index, (item, ty))| {
            let item = self.value(item, &ty);
            item.map_err(|error| error.below(|| format!("[{index}]")))
        });
        items.collect()
    }

    fn payload(
        &mut self,
        value: &Value,
        ty: Option<Type>,
    ) -> Result<Option<Box<Val>>, InvalidValue> {
        let payload = ty.map(|ty| self.value(value, &ty).map(Box::new));
        payload.transpose()
    }

    fn flags(&mut self, value: &Value, flags: &types::Flags) -> Result<Vec<String>, InvalidValue> {
        let names = array(value)?;
        self.take(names.len())?;
        let named = |name: &str| names.iter().any(|given| given.as_str() == Some(name));
        let unknown = names.iter().find(|given| {
            let given = given.as_str();
            !flags.names().any(|name| given == Some(name))
        });
        if unknown.is_some() {
            return Err(InvalidValue::new("contains an unknown flag"));
        }
        Ok(flags
            .names()
            .filter(|name| named(name))
            .map(str::to_owned)
            .collect())
    }
}

fn expected(what: &str) -> InvalidValue {
    InvalidValue::new(format!("expected {what}"))
}

fn some(value: Val) -> Val {
    Val::Option(Some(Box::new(value)))
}

fn text(value: &Value) -> Result<&str, InvalidValue> {
    value.as_str().ok_or_else(|| expected("text"))
}

fn array(value: &Value) -> Result<&Vec<Value>, InvalidValue> {
    value.as_array().ok_or_else(|| expected("an array"))
}

/// Reads an integer, or the text of one. Only the schemas of 64-bit integers allow text.
fn integer<T: TryFrom<i128>>(value: &Value) -> Result<T, InvalidValue> {
    let number = match value {
        Value::Number(number) => number
            .as_i64()
            .map(i128::from)
            .or(number.as_u64().map(i128::from)),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| expected("an integer"))?;
    T::try_from(number).map_err(|_| InvalidValue::new("the integer is too large for its type"))
}

fn single(value: &Value) -> Result<f32, InvalidValue> {
    let number = value.as_f64().ok_or_else(|| expected("a number"))?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding is intended; overflow is checked"
    )]
    let number = number as f32;
    let is_finite = number.is_finite().then_some(number);
    is_finite.ok_or_else(|| InvalidValue::new("the number is too large for its type"))
}

/// Converts a result. `None` if the value is not of the type, which wasmtime excludes.
pub fn to_json(value: Val, ty: &Type) -> Option<Value> {
    Some(match (value, ty) {
        (Val::Bool(value), _) => value.into(),
        (Val::S8(value), _) => value.into(),
        (Val::U8(value), _) => value.into(),
        (Val::S16(value), _) => value.into(),
        (Val::U16(value), _) => value.into(),
        (Val::S32(value), _) => value.into(),
        (Val::U32(value), _) => value.into(),
        (Val::S64(value), _) if value.unsigned_abs() <= MAX_SAFE_INTEGER => value.into(),
        (Val::S64(value), _) => value.to_string().into(),
        (Val::U64(value), _) if value <= MAX_SAFE_INTEGER => value.into(),
        (Val::U64(value), _) => value.to_string().into(),
        // The shortest text that is read as the same `f32`: 0.1, and not 0.10000000149011612.
        (Val::Float32(value), _) if value.is_finite() => float(value.to_string().parse().ok()?),
        (Val::Float32(value), _) => float(value.into()),
        (Val::Float64(value), _) => float(value),
        (Val::Char(value), _) => value.to_string().into(),
        (Val::String(value), _) => value.into(),
        (Val::List(items), Type::List(list)) => match list.ty() {
            Type::U8 => {
                let bytes = items.into_iter().map(|item| match item {
                    Val::U8(byte) => Some(byte),
                    _ => None,
                });
                BASE64.encode(bytes.collect::<Option<Vec<u8>>>()?).into()
            }
            ty => items
                .into_iter()
                .map(|item| to_json(item, &ty))
                .collect::<Option<_>>()?,
        },
        (Val::Record(values), Type::Record(record)) => {
            let mut members = Map::new();
            for ((name, value), field) in values.into_iter().zip(record.fields()) {
                let member = match (value, &field.ty) {
                    (Val::Option(None), _) => continue,
                    (Val::Option(Some(value)), Type::Option(option)) => {
                        to_json(*value, &option.ty())?
                    }
                    (value, ty) => to_json(value, ty)?,
                };
                members.insert(name, member);
            }
            members.into()
        }
        (Val::Tuple(items), Type::Tuple(tuple)) => {
            let items = items.into_iter().zip(tuple.types());
            items
                .map(|(item, ty)| to_json(item, &ty))
                .collect::<Option<_>>()?
        }
        (Val::Variant(tag, None), _) => json!({"tag": tag}),
        (Val::Variant(tag, Some(payload)), Type::Variant(variant)) => {
            let case = variant.cases().find(|case| case.name == tag)?;
            json!({"tag": tag, "val": to_json(*payload, &case.ty?)?})
        }
        (Val::Enum(name), _) => name.into(),
        (Val::Option(None), _) => Value::Null,
        (Val::Option(Some(value)), Type::Option(option)) => match option.ty() {
            inner @ Type::Option(_) => json!({"some": to_json(*value, &inner)?}),
            inner => to_json(*value, &inner)?,
        },
        (Val::Result(Ok(value)), Type::Result(result)) => {
            json!({"ok": unit_or(value, result.ok())?})
        }
        (Val::Result(Err(value)), Type::Result(result)) => {
            json!({"err": unit_or(value, result.err())?})
        }
        (Val::Flags(names), _) => names.into(),
        _ => return None,
    })
}

fn unit_or(value: Option<Box<Val>>, ty: Option<Type>) -> Option<Value> {
    match (value, ty) {
        (None, None) => Some(Value::Null),
        (Some(value), Some(ty)) => to_json(*value, &ty),
        _ => None,
    }
}

fn float(value: f64) -> Value {
    let name = match value {
        _ if value.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => return Number::from_f64(value).map_or(Value::Null, Value::Number),
    };
    name.into()
}
