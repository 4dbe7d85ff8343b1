#[derive(::toolhost_sdk::serde::Serialize, ::toolhost_sdk::serde::Deserialize)]
#[serde(crate = "::toolhost_sdk::serde")]
/// A place in a text.
#[derive(Debug)]
pub struct Place {
    /// The line.
    #[serde(default = "Place::__default_line")]
    pub line: u32,
    /// The column.
    #[serde(rename = "col")]
    #[serde(alias = "column")]
    #[serde(skip_serializing_if = "::std::option::Option::is_none")]
    column: Option<u32>,
}
#[doc(hidden)]
impl Place {
    fn __default_line() -> u32 {
        ::toolhost_sdk::schema::value_of(::toolhost_sdk::schema::json_of::<u32>(1))
    }
}
impl ::toolhost_sdk::Schema for Place {
    fn schema() -> ::toolhost_sdk::Value {
        ::toolhost_sdk::schema::Object::new()
            .description("A place in a text.")
            .optional(
                "line",
                ::toolhost_sdk::schema::Property::of::<u32>("The line.")
                    .default(::toolhost_sdk::schema::json_of::<u32>(1))
                    .min(1),
            )
            .optional(
                "col",
                ::toolhost_sdk::schema::Property::of::<Option<u32>>("The column.")
                    .aliases(&["column"]),
            )
            .finish()
    }
}
impl ::toolhost_sdk::IntoOutcome for Place {
    fn into_outcome(self) -> ::toolhost_sdk::Result<::toolhost_sdk::Outcome> {
        ::toolhost_sdk::schema::outcome_of(&self)
    }
    fn output_schema() -> ::std::option::Option<::toolhost_sdk::Value> {
        ::std::option::Option::Some(<Self as ::toolhost_sdk::Schema>::schema())
    }
}
