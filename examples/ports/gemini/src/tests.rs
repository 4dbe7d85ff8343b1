use tempfile::TempDir;
use toolhost_sdk::testing;

use super::*;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        testing::write_files(dir.path(), &[("a.txt", "one\ntwo\ntwo\n")]);
        Self(dir)
    }

    fn call(&self, name: &str, old: &str, new: &str, expected: usize) -> Result<Outcome> {
        let input = json!({
            "file_path": self.0.path().join(name),
            "old_string": old,
            "new_string": new,
            "expected_replacements": expected,
        });
        testing::call::<replace_text>(&Context::test(), input)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap()
    }
}

#[test]
fn an_edit_changes_the_file_and_shows_its_difference() {
    let folder = Folder::new();
    let outcome = folder.call("a.txt", "one", "1", 1).unwrap();
    assert_eq!(folder.read("a.txt"), "1\ntwo\ntwo\n");
    assert!(outcome.summary.unwrap().starts_with("Modified "));
    let diff = outcome.display.unwrap().diff.unwrap();
    assert_eq!(diff.diff, "@@ -1,3 +1,3 @@\n-one\n+1\n two\n two\n");
    assert_eq!(diff.original.as_deref(), Some("one\ntwo\ntwo\n"));
}

#[test]
fn an_empty_old_string_creates_a_file() {
    let folder = Folder::new();
    let outcome = folder.call("b.txt", "", "new\n", 1).unwrap();
    assert_eq!(folder.read("b.txt"), "new\n");
    assert!(outcome.summary.unwrap().starts_with("Created "));
    assert_eq!(outcome.display.unwrap().diff.unwrap().original, None);
}

#[test]
fn an_edit_that_does_not_fit_changes_nothing() {
    let folder = Folder::new();
    let table = [
        ("a.txt", "two", 1, "occurrence_mismatch"),
        ("a.txt", "three", 1, "occurrence_mismatch"),
        ("a.txt", "", 1, "file_exists"),
        ("b.txt", "two", 1, "file_not_found"),
    ];
    for (name, old, expected, code) in table {
        let error = folder.call(name, old, "new", expected).unwrap_err();
        assert_eq!(error.code.as_deref(), Some(code), "{name} {old}");
    }
    assert_eq!(folder.read("a.txt"), "one\ntwo\ntwo\n");
}

#[test]
fn parameters_that_change_nothing_are_refused() {
    let validate = replace_text::previews().validate.unwrap();
    let check = |old: &str, new: &str, expected: usize| {
        let input = json!({
            "file_path": "a.txt", "old_string": old, "new_string": new, "expected_replacements": expected,
        });
        validate(&Context::test(), input).map_err(|error| error.message)
    };
    assert_eq!(check("a", "b", 2), Ok(()));
    let equal = "`old_string` and `new_string` are equal";
    assert_eq!(check("a", "a", 1), Err(equal.to_owned()));
    let creates = "an empty `old_string` creates one file";
    assert_eq!(check("", "a", 2), Err(creates.to_owned()));
}

#[test]
fn a_call_is_described() {
    let describe = |old: &str, new: &str| description("a.txt".into(), old.into(), new.into(), 1);
    assert_eq!(describe("one\ntwo", "1"), "a.txt: one two => 1");
    assert_eq!(describe("", "1"), "Create a.txt");
    let locations = replace_text::previews().locations.unwrap();
    let input = json!({"file_path": "a.txt", "old_string": "a", "new_string": "b"});
    assert_eq!(
        locations(&Context::test(), input),
        Ok(vec![Location::write("a.txt")])
    );
}

#[test]
fn several_places_require_approval() {
    let reason = |expected| confirm("a.txt".into(), "a".into(), "b".into(), expected);
    assert_eq!(reason(1), None);
    assert_eq!(reason(3).as_deref(), Some("it replaces 3 places in a.txt"));
}

#[test]
fn the_question_shows_the_replacement() {
    let blocks = render_permission("a.txt".into(), "one\n".into(), "1\n".into(), 3);
    let row = ["a.txt", "one", "1", "3"].map(str::to_owned).to_vec();
    let columns = ["file", "text", "replacement", "places"];
    assert_eq!(blocks, [Display::table(&columns, &[row])]);
}
