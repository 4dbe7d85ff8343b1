#[allow(
    clippy::fn_params_excessive_bools,
    clippy::needless_pass_by_value,
    clippy::too_many_arguments,
    clippy::unnecessary_wraps
)]
/// Do nothing.
fn nothing() {}
#[doc(hidden)]
#[allow(non_camel_case_types)]
struct nothing {}
impl ::toolhost_sdk::Tool for nothing {
    fn name() -> ::std::borrow::Cow<'static, str> {
        ::std::borrow::Cow::Borrowed("nothing")
    }
    fn descriptor() -> ::toolhost_sdk::Descriptor {
        let input = ::toolhost_sdk::schema::Object::new();
        ::toolhost_sdk::Descriptor::new("nothing", "Do nothing.")
            .pure()
            .input_schema(input.finish())
            .returns::<()>()
    }
    fn call(
        _: &::toolhost_sdk::Context,
        input: ::toolhost_sdk::Value,
    ) -> ::toolhost_sdk::Result<::toolhost_sdk::Outcome> {
        let _ = ::toolhost_sdk::Arguments::new(input)?;
        <() as ::toolhost_sdk::IntoOutcome>::into_outcome(nothing())
    }
}
