::core::compile_error! {
    "unknown word `reed`; did you mean `reads`?"
}
::core::compile_error! {
    "parameter `path` has no doc comment; it is the description for models, so write `/// …` above it"
}
#[allow(
    clippy::fn_params_excessive_bools,
    clippy::needless_pass_by_value,
    clippy::too_many_arguments,
    clippy::unnecessary_wraps
)]
/// Read.
fn read(path: String) {}
#[doc(hidden)]
#[allow(non_camel_case_types)]
struct read {}
impl ::toolhost_sdk::Tool for read {
    fn descriptor() -> ::toolhost_sdk::Descriptor {
        ::core::unreachable!()
    }
    fn call(
        _: &::toolhost_sdk::Context,
        _: ::toolhost_sdk::Value,
    ) -> ::toolhost_sdk::Result<::toolhost_sdk::Outcome> {
        ::core::unreachable!()
    }
}
