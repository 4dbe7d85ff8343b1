//! Inspection of types by syntax. A macro sees only tokens, so this is limited.

use syn::{GenericArgument, Path, PathArguments, Type, TypePath};

/// How a parameter's type restricts the options of `#[arg]`.
#[derive(Clone, Copy, PartialEq)]
pub enum Shape {
    Number,
    Bool,
    Text,
    List,
    Map,
    /// A custom type or an alias, which the compiler checks.
    Other,
}

pub fn shape(ty: &Type) -> Shape {
    match last_segment(ty).as_deref() {
        Some(
            "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" | "f32"
            | "f64",
        ) => Shape::Number,
        Some("bool") => Shape::Bool,
        Some("String" | "str") => Shape::Text,
        Some("Vec") => Shape::List,
        Some("BTreeMap" | "HashMap") => Shape::Map,
        _ => Shape::Other,
    }
}

/// The `T` of an `Option<T>`.
pub fn option_of(ty: &Type) -> Option<&Type> {
    let segment = path(ty)?.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    match arguments.args.first() {
        Some(GenericArgument::Type(inner)) if segment.ident == "Option" => Some(inner),
        _ => None,
    }
}

/// The last segment of a path: `String` of `std::string::String`.
pub fn last_segment(ty: &Type) -> Option<String> {
    Some(path(ty)?.segments.last()?.ident.to_string())
}

fn path(ty: &Type) -> Option<&Path> {
    match ty {
        Type::Path(TypePath { qself: None, path }) => Some(path),
        Type::Group(group) => self::path(&group.elem),
        Type::Paren(paren) => self::path(&paren.elem),
        _ => None,
    }
}
