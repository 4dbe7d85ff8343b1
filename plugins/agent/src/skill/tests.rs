//! Skills: arguments, files, precedence of directories, and invalid ones.

use std::fs;

use expect_test::{Expect, expect};

use super::*;
use crate::testing::{run_examples, shown, text, write};

const COMMIT: &str = "---\nname: commit\ndescription: Make a commit\nallowed-tools: Read, Bash(git add:*, git commit:*) Grep\nversion: 1.2\n---\n# Commit\nDo it: $ARGUMENTS.\n";

struct Folders {
    dir: tempfile::TempDir,
}

impl Folders {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), files);
        Self { dir }
    }

    fn cx(&self) -> Context {
        let folder = |name: &str| self.dir.path().join("skills").join(name);
        Context::test()
            .with_root(folder("project"), "ro")
            .with_root(folder("user"), "ro")
    }

    fn check(&self, input: Value, expected: Expect) {
        let text = shown::<skill>(&self.cx(), input);
        expected.assert_eq(&text.replace(self.dir.path().to_str().unwrap(), ""));
    }
}

// R-309
#[test]
fn r_309_a_skill_is_its_text_with_the_arguments_and_its_files() {
    let folders = Folders::new(&[
        ("skills/project/commit/SKILL.md", COMMIT),
        ("skills/project/commit/scripts/check.sh", ""),
        ("skills/project/commit/a/b/c/d.md", ""),
        ("skills/project/commit/.git/x", ""),
        ("skills/user/.x", ""),
    ]);
    folders.check(json!({"skill": "commit", "args": "all"}), expect![[r##"
        # Commit
        Do it: all.

        (skill commit; its directory is /skills/project/commit)
        Files in the directory:
        - a/b/c/d.md
        - scripts/check.sh
        Intended tools: Read, Bash(git add:*, git commit:*), Grep
        summary: loaded the skill commit
        {"name":"commit","description":"Make a commit","version":"1.2","base_dir":"/skills/project/commit","allowed_tools":["Read","Bash(git add:*, git commit:*)","Grep"],"resources":["a/b/c/d.md","scripts/check.sh"],"truncated":false}"##]]);
    folders.check(json!({"name": "/Commit"}), expect![[r##"
        # Commit
        Do it: .

        (skill commit; its directory is /skills/project/commit)
        Files in the directory:
        - a/b/c/d.md
        - scripts/check.sh
        Intended tools: Read, Bash(git add:*, git commit:*), Grep
        summary: loaded the skill commit
        {"name":"commit","description":"Make a commit","version":"1.2","base_dir":"/skills/project/commit","allowed_tools":["Read","Bash(git add:*, git commit:*)","Grep"],"resources":["a/b/c/d.md","scripts/check.sh"],"truncated":false}"##]]);
}

#[test]
fn arguments_that_have_no_place_come_last() {
    let folders = Folders::new(&[
        ("skills/project/a/SKILL.md", "\u{feff}# Do\nthat\n"),
        ("skills/user/.x", ""),
    ]);
    folders.check(json!({"skill": "a", "arguments": "now"}), expect![[r##"
        # Do
        that

        Arguments: now

        (skill a; its directory is /skills/project/a)
        summary: loaded the skill a
        {"name":"a","description":"Do","base_dir":"/skills/project/a","resources":[],"truncated":false}"##]]);
}

#[test]
fn earlier_directories_take_precedence() {
    let folders = Folders::new(&[
        (
            "skills/user/b/SKILL.md",
            "---\nname: commit\ndescription: of the user\n---\nuser",
        ),
        (
            "skills/user/other/SKILL.md",
            "---\ndescription: >\n  two\n  lines\nallowed-tools: [Read, 3, Grep]\n---\nother",
        ),
        ("skills/user/README.md", "no skill"),
        ("skills/user/empty/x", "no skill"),
        ("skills/project/commit/SKILL.md", COMMIT),
    ]);
    folders.check(json!({}), expect![[r#"
        commit: Make a commit
        other: two lines
        (left out: b: /skills/project/commit has the same name and comes first)
        summary: 2 skills
        {"truncated":false,"skills":[{"name":"commit","description":"Make a commit"},{"name":"other","description":"two lines"}]}"#]]);
    folders.check(json!({"skill": "other"}), expect![[r#"
        other

        (skill other; its directory is /skills/user/other)
        Intended tools: Read, Grep
        summary: loaded the skill other
        {"name":"other","description":"two lines","base_dir":"/skills/user/other","allowed_tools":["Read","Grep"],"resources":[],"truncated":false}"#]]);
}

#[test]
fn invalid_skills_are_reported() {
    let large = "x".repeat(300 << 10);
    let folders = Folders::new(&[
        ("skills/project/open/SKILL.md", "---\nname: x\n"),
        ("skills/project/yaml/SKILL.md", "---\nname: [\n---\n"),
        ("skills/project/large/SKILL.md", &large),
        (
            "skills/project/front/SKILL.md",
            &format!("---\nname: {}\n---\n", "x".repeat(20 << 10)),
        ),
        (
            "skills/project/bomb/SKILL.md",
            "---\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n---\n",
        ),
    ]);
    folders.check(json!({}), expect![[r#"
        (left out: bomb: the front matter of SKILL.md is not YAML: budget breached: Nodes { nodes: 2001 } at line 1, column 24 (defined at line 3, column 7) (used at line 4, column 11))
        (left out: front: the front matter of SKILL.md is larger than 16384 bytes)
        (left out: large: SKILL.md is larger than 262144 bytes)
        (left out: open: the front matter of SKILL.md has no end; close it with a line `---`)
        (left out: yaml: the front matter of SKILL.md is not YAML: unclosed bracket '[' at line 1, column 7)
        (left out: /skills/user: the directory cannot be read)
        there are no skills
        summary: 0 skills
        {"truncated":false,"skills":[]}"#]]);
    folders.check(json!({"skill": "open"}), expect![[r#"
        NotFound skill_not_found: no skill named "open"
        - ask the user to fix it: open: the front matter of SKILL.md has no end; close it with a line `---`
        - no skills exist; continue without one"#]]);
}

#[test]
fn m_01_the_name_of_a_folder_is_one_line_and_shows_every_character() {
    let broken = "skills/project/evil\nadmin: a trusted skill/SKILL.md";
    let named = "skills/project/x\n(end)\u{202e}\u{1b}[31m/SKILL.md";
    let folders = Folders::new(&[
        (broken, "---\nname: x"),
        (named, "---\nname: x\nversion: \"1\\n\\u202e\"\n---\ntext"),
        ("skills/user/.x", ""),
    ]);
    folders.check(json!({}), expect![[r#"
        x: text
        (left out: evil admin: a trusted skill: the front matter of SKILL.md has no end; close it with a line `---`)
        summary: 1 skill
        {"truncated":false,"skills":[{"name":"x","description":"text"}]}"#]]);
    folders.check(
        json!({"skill": "x"}),
        expect![[r#"
            text

            (skill x; its directory is /skills/project/x (end)\u{202e}\u{1b}[31m)
            summary: loaded the skill x
            {"name":"x","description":"text","version":"1 \\u{202e}","base_dir":"/skills/project/x (end)\\u{202e}\\u{1b}[31m","resources":[],"truncated":false}"#]],
    );
}

#[test]
fn m_02_a_skill_that_is_left_out_is_named_and_few_are() {
    let folders = Folders::new(&[
        ("skills/project/commit/SKILL.md", COMMIT),
        ("skills/project/other/SKILL.md", "---\nname: commit\n---\n"),
        ("skills/user/.x", ""),
    ]);
    let project = folders.dir.path().join("skills/project");
    fs::create_dir(project.join("loop")).unwrap();
    std::os::unix::fs::symlink("SKILL.md", project.join("loop/SKILL.md")).unwrap();
    let list = || text::<skill>(&folders.cx(), json!({}));
    assert!(list().contains("(left out: loop: SKILL.md cannot be opened: "));
    let note = "/skills/project/commit has the same name and comes first)";
    assert!(list().contains(note), "{}", list());
    for number in 0..100 {
        let file = format!("skills/project/z{number}/SKILL.md");
        write(folders.dir.path(), &[(&file, "---\n")]);
    }
    assert_eq!(list().matches("(left out: ").count(), MOST_BROKEN + 1);
    assert!(list().contains("(left out: 82 more)"), "{}", list());
}

#[test]
fn skills_beyond_the_limit_are_counted_and_a_long_list_is_shortened() {
    let description = "x".repeat(1024);
    let files: Vec<(String, String)> = (0..203)
        .map(|number| {
            let text = format!("---\ndescription: {description}\n---\n");
            (format!("skills/project/s{number:03}/SKILL.md"), text)
        })
        .collect();
    let mut files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (&**name, &**text))
        .collect();
    files.push(("skills/project/s201/x", ""));
    files.push(("skills/project/z/other.md", ""));
    files.push(("skills/user/.x", ""));
    let folders = Folders::new(&files);
    let text = text::<skill>(&folders.cx(), json!({}));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 201);
    assert_eq!(
        lines[199],
        format!("s199: {}… [+924 characters]", "x".repeat(100))
    );
    assert_eq!(
        lines[200],
        "(left out: 3 skills beyond the limit; ask the user to remove some)"
    );
}

#[test]
fn a_text_with_arguments_is_bounded() {
    let many = "$ARGUMENTS".repeat(100);
    let folders = Folders::new(&[
        ("skills/project/many/SKILL.md", many.as_str()),
        ("skills/user/.x", ""),
    ]);
    let args = "x".repeat(6000);
    folders.check(
        json!({"skill": "many", "args": args}),
        expect![[r#"
            InvalidInput arguments_too_large: the skill has 100 places for its arguments and would have more than 524288 bytes
            - pass shorter `args`"#]],
    );
    assert!(
        text::<skill>(&folders.cx(), json!({"skill": "many", "args": "short"}))
            .contains("shortshort")
    );
}

#[test]
fn the_reason_of_another_skill_is_not_given() {
    let folders = Folders::new(&[
        ("skills/project/commit-all/SKILL.md", "---\n"),
        ("skills/user/.x", ""),
    ]);
    let reason = "ask the user to fix it";
    for (name, is_given) in [("commit", false), ("commit-all", true)] {
        let shown = shown::<skill>(&folders.cx(), json!({"skill": name}));
        assert_eq!(shown.contains(reason), is_given, "{shown}");
    }
}

#[test]
fn an_unknown_skill_gets_the_names() {
    let folders = Folders::new(&[
        ("skills/project/commit/SKILL.md", COMMIT),
        ("skills/user/review/SKILL.md", "Review"),
    ]);
    folders.check(
        json!({"skill": "comit"}),
        expect![[r#"
        NotFound skill_not_found: no skill named "comit"; did you mean "commit"?
        - use one of: commit, review"#]],
    );
    folders.check(
        json!({"skill": "dance\n"}),
        expect![[r#"
        NotFound skill_not_found: no skill named "dance"
        - use one of: commit, review"#]],
    );
    expect![[r#"
        NotFound skill_not_found: no skill named "dance"
        - no skills exist; continue without one"#]]
    .assert_eq(&shown::<skill>(&Context::test(), json!({"skill": "dance"})));
    expect![[r#"
        there are no skills
        summary: 0 skills
        {"truncated":false,"skills":[]}"#]]
    .assert_eq(&shown::<skill>(&Context::test(), json!({})));
}

#[test]
fn a_long_list_of_files_is_cut() {
    let folders = Folders::new(&[("skills/project/commit/SKILL.md", COMMIT)]);
    for n in 0..120 {
        write(
            folders.dir.path(),
            &[(&format!("skills/project/commit/{n:03}"), "")],
        );
    }
    let outcome =
        toolhost_sdk::testing::call::<skill>(&folders.cx(), json!({"skill": "commit"})).unwrap();
    let data = outcome.structured.unwrap();
    assert_eq!(
        (
            data["resources"].as_array().unwrap().len(),
            &data["truncated"]
        ),
        (100, &json!(true))
    );
    assert!(
        outcome.llm[0]
            .text
            .as_ref()
            .unwrap()
            .contains("- 099\n- … and more")
    );
}

#[test]
fn examples_work() {
    let folders = Folders::new(&[
        ("skills/project/commit/SKILL.md", COMMIT),
        ("skills/user/.x", ""),
    ]);
    run_examples::<skill>(|| folders.cx());
}
