//! Tests of profile names.

use crate::profile::Profile;

#[test]
fn profiles_are_parsed_by_name() {
    for profile in Profile::ALL {
        assert_eq!(profile.as_str().parse(), Ok(profile));
    }
}

#[test]
fn unknown_profile_names_have_a_hint() {
    for (name, error) in [
        (
            "claud",
            "`claud` is not a profile; did you mean `claude`? the profiles are native, claude, sema, gemini, kode, pegasus",
        ),
        (
            "Gemini",
            "`Gemini` is not a profile; did you mean `gemini`? the profiles are native, claude, sema, gemini, kode, pegasus",
        ),
        (
            "zed",
            "`zed` is not a profile; use one of native, claude, sema, gemini, kode, pegasus",
        ),
        (
            "\u{1b}[2J",
            r"`\u{1b}[2J` is not a profile; use one of native, claude, sema, gemini, kode, pegasus",
        ),
    ] {
        assert_eq!(name.parse::<Profile>().unwrap_err().to_string(), error);
    }
    let long = "x".repeat(10_000).parse::<Profile>().unwrap_err();
    assert!(long.to_string().len() < 200, "{long}");
}
