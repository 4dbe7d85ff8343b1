#[allow(
    clippy::fn_params_excessive_bools,
    clippy::needless_pass_by_value,
    clippy::too_many_arguments,
    clippy::unnecessary_wraps
)]
/// Write.
fn write(cx: &Context, path: String, text: Option<String>) -> String {
    path
}
#[doc(hidden)]
#[allow(non_camel_case_types)]
struct write {}
impl ::toolhost_sdk::Tool for write {
    fn name() -> ::std::borrow::Cow<'static, str> {
        ::std::borrow::Cow::Borrowed("write")
    }
    fn descriptor() -> ::toolhost_sdk::Descriptor {
        let input = ::toolhost_sdk::schema::Object::new()
            .required("path", ::toolhost_sdk::schema::Property::of::<String>("Where."))
            .optional(
                "text",
                ::toolhost_sdk::schema::Property::of::<Option<String>>("What."),
            );
        ::toolhost_sdk::Descriptor::new("write", "Write.")
            .writes()
            .input_schema(input.finish())
            .returns::<String>()
            .hooks(&["pre-tool-use"])
    }
    fn call(
        cx: &::toolhost_sdk::Context,
        input: ::toolhost_sdk::Value,
    ) -> ::toolhost_sdk::Result<::toolhost_sdk::Outcome> {
        let mut arguments = ::toolhost_sdk::Arguments::new(input)?;
        <String as ::toolhost_sdk::IntoOutcome>::into_outcome(
            write(cx, arguments.take("path")?, arguments.take_optional("text")?),
        )
    }
    fn previews() -> ::toolhost_sdk::Previews {
        ::toolhost_sdk::Previews {
            validate: ::std::option::Option::Some(|cx, input| {
                let mut arguments = ::toolhost_sdk::Arguments::new(input)?;
                let value: ::toolhost_sdk::Result<()> = check(
                    cx,
                    arguments.take("path")?,
                    arguments.take_optional("text")?,
                );
                value
            }),
            describe_call: ::std::option::Option::Some(|cx, input| {
                let mut arguments = ::toolhost_sdk::Arguments::new(input)?;
                let value: ::std::string::String = ::std::convert::Into::into(
                    describe(
                        cx,
                        arguments.take("path")?,
                        arguments.take_optional("text")?,
                    ),
                );
                ::std::result::Result::Ok(value)
            }),
            render_result: ::std::option::Option::Some(|cx, input, outcome| {
                let mut arguments = ::toolhost_sdk::Arguments::new(input)?;
                let value: ::std::vec::Vec<::toolhost_sdk::Display> = render::result(
                    cx,
                    arguments.take("path")?,
                    arguments.take_optional("text")?,
                    outcome,
                );
                ::std::result::Result::Ok(value)
            }),
            ..::toolhost_sdk::Previews::NONE
        }
    }
}
