//! Parsers of argument values that several commands share.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use toolhost_formats::events::FrontEnd;
use toolhost_formats::model::Format;
use toolhost_kernel::OnDuplicate;

/// Parses the format of a model API. Help and errors list the formats.
pub fn format_parser() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::as_str))
        .try_map(|name| name.parse::<Format>())
}

/// Parses the system of a front end. Help and errors list the systems.
pub fn front_end_parser() -> impl TypedValueParser<Value = FrontEnd> {
    PossibleValuesParser::new(FrontEnd::ALL.map(FrontEnd::as_str))
        .try_map(|name| FrontEnd::by_name(&name).ok_or("not the name of a system"))
}

pub fn on_duplicate_parser() -> impl TypedValueParser<Value = OnDuplicate> {
    let values = [
        ("error", "Report an error and do not load the second plugin"),
        ("replace", "Use the second plugin's tool under that name"),
        (
            "qualify",
            "Rename the second plugin's tool to `plugin__tool`",
        ),
    ];
    let values = values.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).try_map(|name| {
        OnDuplicate::deserialize(name.into_deserializer())
            .map_err(|error: serde::de::value::Error| error)
    })
}
