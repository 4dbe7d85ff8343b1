use toolhost_sdk::testing;

use super::*;

fn input(text: &str) -> Value {
    json!({"text": text, "priority": 2})
}

/// The only test that depends on the working directory.
#[test]
fn notes_are_appended() {
    let dir = tempfile::tempdir().unwrap();
    std::env::set_current_dir(dir.path()).unwrap();
    let show = |input| testing::show::<add_note>(&Context::test(), input);
    assert_eq!(
        show(input("buy bread")),
        "added line 1 to notes.md\n{\"file\":\"notes.md\",\"line\":1}"
    );
    assert_eq!(
        show(json!({"text": "write"})),
        "added line 2 to notes.md\n{\"file\":\"notes.md\",\"line\":2}"
    );
    let notes = fs::read_to_string(NOTES).unwrap();
    assert_eq!(notes, "- [2] buy bread\n- write\n");

    fs::write(NOTES, "# Notes").unwrap();
    show(json!({"text": "write"}));
    let notes = fs::read_to_string(NOTES).unwrap();
    assert_eq!(notes, "# Notes\n- write\n");
}

#[test]
fn priorities_are_between_1_and_5() {
    let input = json!({"text": "buy bread", "priority": 6});
    assert_eq!(
        testing::show::<add_note>(&Context::test(), input),
        "InvalidInput invalid_input: `priority`: 6 is more than the maximum of 5"
    );
}

#[test]
fn a_note_is_one_line() {
    let code = |text: &str| validate(text.to_owned(), None).unwrap_err().code;
    assert_eq!(code(" ").as_deref(), Some("blank_note"));
    assert_eq!(code("a\nb").as_deref(), Some("note_too_long"));
    assert_eq!(validate("a".to_owned(), None), Ok(()));
}

#[test]
fn a_call_is_described() {
    let cx = Context::test();
    let previews = add_note::previews();
    let title = previews.describe_call.unwrap();
    assert_eq!(title(&cx, input("write")).unwrap(), "Add note: write");
    let locations = previews.locations.unwrap();
    assert_eq!(
        locations(&cx, input("write")),
        Ok(vec![Location::write("notes.md")])
    );
}

#[test]
fn the_question_and_the_result_show_the_note() {
    let cx = Context::test();
    let previews = add_note::previews();
    let question = previews.render_permission.unwrap();
    assert_eq!(
        question(&cx, input("write")).unwrap()[1],
        Display::code("markdown", "- [2] write\n")
    );
    let result = previews.render_result.unwrap();
    let outcome = Outcome::new().structured(&json!({"file": NOTES, "line": 7}));
    let row = vec!["7".to_owned(), "write".to_owned()];
    assert_eq!(
        result(&cx, input("write"), &outcome).unwrap()[1],
        Display::table(&["line", "note"], &[row])
    );
    let failed = result(&cx, input("write"), &Outcome::new());
    assert_eq!(failed, Ok(Vec::new()));
}
