//! Tests of profile names.

use crate::profile::Profile;

#[test]
fn a_profile_is_known_by_its_name() {
    for profile in Profile::ALL {
        assert_eq!(profile.as_str().parse(), Ok(profile));
    }
}

#[test]
fn a_wrong_name_is_told_with_the_nearest_right_one() {
    for (word, error) in [
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
        assert_eq!(word.parse::<Profile>().unwrap_err().to_string(), error);
    }
    let long = "x".repeat(10_000).parse::<Profile>().unwrap_err();
    assert!(long.to_string().len() < 200, "{long}");
}
