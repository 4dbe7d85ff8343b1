#[allow(
    clippy::fn_params_excessive_bools,
    clippy::needless_pass_by_value,
    clippy::too_many_arguments,
    clippy::unnecessary_wraps
)]
/// Count the words
/// of a text file.
pub(crate) fn word_count(
    cx: &Context,
    path: String,
    mut limit: u32,
    how: How,
    r#type: Option<String>,
) -> Result<usize> {
    Ok(0)
}
#[doc(hidden)]
#[allow(non_camel_case_types)]
pub(crate) struct word_count {}
impl ::toolhost_sdk::Tool for word_count {
    fn name() -> ::std::borrow::Cow<'static, str> {
        ::std::borrow::Cow::Borrowed("word_count")
    }
    fn descriptor() -> ::toolhost_sdk::Descriptor {
        let input = ::toolhost_sdk::schema::Object::new()
            .required(
                "path",
                ::toolhost_sdk::schema::Property::of::<String>("Path of a text file.")
                    .min_len(1)
                    .aliases(&["file"]),
            )
            .optional(
                "limit",
                ::toolhost_sdk::schema::Property::of::<u32>("At most this many words.")
                    .default(::toolhost_sdk::schema::json_of::<u32>(100))
                    .min(1)
                    .max(MAX_WORDS),
            )
            .optional(
                "how",
                ::toolhost_sdk::schema::Property::of::<How>("How to count.")
                    .default(::toolhost_sdk::schema::json_of(How::Fast)),
            )
            .optional(
                "type",
                ::toolhost_sdk::schema::Property::of::<
                    Option<String>,
                >("Only words like this one."),
            );
        ::toolhost_sdk::Descriptor::new("word_count", "Count the words of a text file.")
            .reads()
            .input_schema(input.finish())
            .returns::<Result<usize>>()
            .category("file")
            .timeout_ms(60000u32)
            .tags(&["text", "count"])
            .example("count this file", r#"{"path": "Cargo.toml"}"#)
    }
    fn call(
        cx: &::toolhost_sdk::Context,
        input: ::toolhost_sdk::Value,
    ) -> ::toolhost_sdk::Result<::toolhost_sdk::Outcome> {
        let mut arguments = ::toolhost_sdk::Arguments::new(input)?;
        <Result<
            usize,
        > as ::toolhost_sdk::IntoOutcome>::into_outcome(
            word_count(
                cx,
                arguments.take("path")?,
                arguments
                    .take_or("limit", || ::toolhost_sdk::schema::json_of::<u32>(100))?,
                arguments.take_or("how", || ::toolhost_sdk::schema::json_of(How::Fast))?,
                arguments.take_optional("type")?,
            ),
        )
    }
}
