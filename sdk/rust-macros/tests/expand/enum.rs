#[derive(::toolhost_sdk::serde::Serialize, ::toolhost_sdk::serde::Deserialize)]
#[serde(crate = "::toolhost_sdk::serde")]
#[serde(rename_all = "snake_case")]
/// How to count.
enum How {
    /// Quickly.
    Fast,
    VeryThorough,
}
impl ::toolhost_sdk::Schema for How {
    fn schema() -> ::toolhost_sdk::Value {
        ::toolhost_sdk::schema::enum_schema(
            "How to count.",
            &[("fast", "Quickly."), ("very_thorough", "")],
        )
    }
}
impl ::toolhost_sdk::IntoOutcome for How {
    fn into_outcome(self) -> ::toolhost_sdk::Result<::toolhost_sdk::Outcome> {
        ::toolhost_sdk::schema::outcome_of(&self)
    }
    fn output_schema() -> ::std::option::Option<::toolhost_sdk::Value> {
        ::std::option::Option::Some(<Self as ::toolhost_sdk::Schema>::schema())
    }
}
