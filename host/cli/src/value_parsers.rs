//! Parsers of argument values that several commands share.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use toolhost_formats::model::Format;

/// Parses the format of a model API. Help and errors list the formats.
pub fn format_parser() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::as_str))
        .try_map(|name| name.parse::<Format>())
}
