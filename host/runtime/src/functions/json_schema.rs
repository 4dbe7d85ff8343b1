//! JSON Schemas (2020-12) of WIT types. `values` converts values in the same form.

use serde_json::{Map, Value, json};
use wasmtime::component::{Type, types};

/// Largest integer that every JSON parser reads exactly.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
/// Maximum number of subschemas of one function. WIT types that share parts are written out at each use, so a component
/// of a few kilobytes can have types with a million parts. The kernel allows 2000 alternatives for one value.
const MAX_PARTS: usize = 500;
/// Maximum nesting. The kernel allows 16 alternatives within each other, and JSON parsers 128 levels.
const MAX_DEPTH: usize = 12;
/// Maximum length of the names of parameters, fields, cases and flags, in bytes. Model APIs refuse longer names of
/// parameters, and each use of a type repeats its names.
const MAX_NAME: usize = 64;

/// Why values of a type cannot be passed as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedType {
    #[error("it uses a {0}, which JSON cannot represent")]
    Kind(&'static str),
    #[error("its types have more than {MAX_PARTS} parts")]
    TooLarge,
    #[error("its types are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("it uses a name that is longer than {MAX_NAME} bytes")]
    LongName,
}

/// Whether the schema describes values that a caller writes or values that a function returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Input,
    Output,
}

struct Schemas {
    of: Use,
    parts: usize,
    depth: usize,
}

impl Schemas {
    fn new(of: Use) -> Self {
        Self {
            of,
            parts: 0,
            depth: 0,
        }
    }
}

/// Returns the schema of an object with these parameters.
pub fn of_parameters<'a>(
    parameters: impl Iterator<Item = (&'a str, &'a Type)>,
) -> Result<Value, UnsupportedType> {
    Schemas::new(Use::Input).members(parameters)
}

/// Returns the schema of an object with the member `result`.
pub fn of_result(ty: &Type) -> Result<Value, UnsupportedType> {
    let result = Schemas::new(Use::Output).of(ty)?;
    Ok(object(&[("result", result)], &["result"]))
}

impl Schemas {
    fn of(&mut self, ty: &Type) -> Result<Value, UnsupportedType> {
        if self.depth == MAX_DEPTH {
            return Err(UnsupportedType::TooDeep);
        }
        self.count(1)?;
        self.depth += 1;
        let schema = self.of_parts(ty);
        self.depth -= 1;
        schema
    }

    fn of_parts(&mut self, ty: &Type) -> Result<Value, UnsupportedType> {
        Ok(match ty {
            Type::Bool => json!({"type": "boolean"}),
            Type::S8 => integer(i8::MIN, i8::MAX),
            Type::U8 => integer(u8::MIN, u8::MAX),
            Type::S16 => integer(i16::MIN, i16::MAX),
            Type::U16 => integer(u16::MIN, u16::MAX),
            Type::S32 => integer(i32::MIN, i32::MAX),
            Type::U32 => integer(u32::MIN, u32::MAX),
            Type::S64 => long_integer(-MAX_SAFE_INTEGER.cast_signed(), "^-?[0-9]{1,19}$"),
            Type::U64 => long_integer(0, "^[0-9]{1,20}$"),
            Type::Float32 | Type::Float64 if self.of == Use::Input => json!({"type": "number"}),
            Type::Float32 | Type::Float64 => {
                json!({"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]})
            }
            Type::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
            Type::String => json!({"type": "string"}),
            Type::List(list) => match list.ty() {
                Type::U8 => json!({"type": "string", "contentEncoding": "base64"}),
                item => json!({"type": "array", "items": self.of(&item)?}),
            },
            Type::Record(record) => {
                let fields: Vec<_> = record
                    .fields()
                    .map(|field| (field.name, field.ty))
                    .collect();
                self.members(fields.iter().map(|(name, ty)| (*name, ty)))?
            }
            Type::Tuple(tuple) => {
                let items = tuple.types().map(|ty| self.of(&ty));
                let items = items.collect::<Result<Vec<_>, _>>()?;
                let count = items.len();
                json!({"type": "array", "prefixItems": items, "minItems": count, "maxItems": count})
            }
            Type::Variant(variant) => self.of_variant(variant)?,
            Type::Enum(cases) => {
                self.names(cases.names())?;
                json!({"type": "string", "enum": cases.names().collect::<Vec<_>>()})
            }
            Type::Option(option) => self.of_option(option)?,
            Type::Result(result) => self.of_nested_result(result)?,
            Type::Flags(flags) => {
                self.names(flags.names())?;
                let names: Vec<_> = flags.names().collect();
                json!({"type": "array", "items": {"type": "string", "enum": names}})
            }
            Type::Own(_) | Type::Borrow(_) => return Err(UnsupportedType::Kind("resource")),
            Type::Future(_) => return Err(UnsupportedType::Kind("future")),
            Type::Stream(_) => return Err(UnsupportedType::Kind("stream")),
            Type::ErrorContext => return Err(UnsupportedType::Kind("error context")),
            Type::Map(_) => return Err(UnsupportedType::Kind("map")),
            Type::FixedLengthList(_) => return Err(UnsupportedType::Kind("list of fixed length")),
        })
    }

    fn of_variant(&mut self, variant: &types::Variant) -> Result<Value, UnsupportedType> {
        let forms = variant.cases().map(|case| {
            self.names(std::iter::once(case.name))?;
            let tag = json!({"type": "string", "const": case.name});
            Ok(match &case.ty {
                None => object(&[("tag", tag)], &["tag"]),
                Some(ty) => object(&[("tag", tag), ("val", self.of(ty)?)], &["tag", "val"]),
            })
        });
        Ok(json!({"oneOf": forms.collect::<Result<Vec<_>, _>>()?}))
    }

    fn of_option(&mut self, option: &types::OptionType) -> Result<Value, UnsupportedType> {
        let inner = option.ty();
        let some = self.of(&inner)?;
        // `null` already means that the inner option is empty.
        let some = match inner {
            Type::Option(_) => object(&[("some", some)], &["some"]),
            _ => some,
        };
        Ok(json!({"anyOf": [some, {"type": "null"}]}))
    }

    fn of_nested_result(&mut self, result: &types::ResultType) -> Result<Value, UnsupportedType> {
        let mut form = |name, ty: Option<Type>| {
            let value = match ty {
                Some(ty) => self.of(&ty)?,
                None => json!({"type": "null"}),
            };
            Ok(object(&[(name, value)], &[name]))
        };
        Ok(json!({"oneOf": [form("ok", result.ok())?, form("err", result.err())?]}))
    }

    fn names<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Result<(), UnsupportedType> {
        for name in names {
            self.count(1)?;
            if name.len() > MAX_NAME {
                return Err(UnsupportedType::LongName);
            }
        }
        Ok(())
    }

    fn count(&mut self, parts: usize) -> Result<(), UnsupportedType> {
        self.parts = self.parts.saturating_add(parts);
        if self.parts > MAX_PARTS {
            return Err(UnsupportedType::TooLarge);
        }
        Ok(())
    }

    /// An object with a member for each field. An empty option is an absent member.
    fn members<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a str, &'a Type)>,
    ) -> Result<Value, UnsupportedType> {
        let (mut members, mut required) = (Vec::new(), Vec::new());
        for (name, ty) in fields {
            self.names(std::iter::once(name))?;
            let schema = if let Type::Option(option) = ty {
                self.of(&option.ty())?
            } else {
                required.push(name);
                self.of(ty)?
            };
            members.push((name, schema));
        }
        Ok(object(&members, &required))
    }
}

fn object(members: &[(&str, Value)], required: &[&str]) -> Value {
    let members = members.iter().cloned();
    let properties: Map<_, _> = members
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn integer(min: impl Into<i64>, max: impl Into<i64>) -> Value {
    json!({"type": "integer", "minimum": min.into(), "maximum": max.into()})
}

/// Clients that read numbers as floating-point would change larger integers, so these are strings.
fn long_integer(min: i64, pattern: &str) -> Value {
    json!({"anyOf": [
        {"type": "integer", "minimum": min, "maximum": MAX_SAFE_INTEGER},
        {"type": "string", "pattern": pattern},
    ]})
}
