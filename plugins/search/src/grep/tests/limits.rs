//! Tests of result limits and continuation.

use super::*;

#[test]
fn limits_say_how_to_go_on() {
    check(
        json!({"pattern": "TODO", "head_limit": 2, "offset": 1}),
        expect![[r#"
        docs/guide.md
        .github/ci.yml

        [4 files contain matches (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]
        [showing 2 from 1; more exist: continue with `offset = 3`]"#]],
    );
    check(
        json!({"pattern": "o", "output_mode": "content", "head_limit": 2}),
        expect![[r#"
        File: .gitignore
        L2: *.log
        L3: !keep.log

        [6 matching lines in 5 files (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]
        [showing 2 from 0; more exist: continue with `offset = 2`]"#]],
    );
    check(
        json!({"pattern": "TODO", "output_mode": "content", "max_per_file": 1, "path": "docs"}),
        expect![[r#"
            File: docs/guide.md
            L2: TODO write

            [2 matching lines in 1 file (searched 1 file in docs; 1 ignored (git: 0, tool: 1))]
            [showing 1 from 0; more exist: raise `max_per_file` or set `path` to a file]"#]],
    );
    check(
        json!({"pattern": "TODO", "offset": 50}),
        expect![[r#"
        [4 files contain matches (searched 7 files in .; 4 ignored (git: 2, tool: 2); 1 binary skipped)]
        [no results from `offset = 50`]"#]],
    );
}

#[test]
fn long_answers_end_at_the_limit() {
    let line = format!("x{}\n", "y".repeat(1500));
    let tree = tree(&[("long.txt", &line.repeat(50))]);
    let input = json!({"pattern": "x", "output_mode": "content"});
    let answer = answer::<Grep>(&context(&tree), tree.path(), input);
    assert!(answer.len() < 21_000, "{}", answer.len());
    assert!(
        answer.ends_with("[showing 13 from 0; more exist: continue with `offset = 13`]"),
        "{answer}"
    );
}

#[test]
fn large_files_are_read_to_their_end() {
    for size in [4096, 16 * 1024, 64 * 1024, 64 * 1024 + 5, 300_000] {
        let text = format!("{}needle", "x\n".repeat(size)).split_off(size + 6);
        let tree = tree(&[("big.txt", &text)]);
        let input = json!({"pattern": "needle", "output_mode": "count"});
        let answer = answer::<Grep>(&context(&tree), tree.path(), input);
        assert!(answer.starts_with("big.txt:1\n"), "{size}: {answer}");
    }
}
#[test]
fn without_time_the_answer_is_partial() {
    let tree = tree(FILES);
    let cx = context(&tree).with_remaining(Duration::ZERO);
    expect![[r#"
        [no matches for `TODO` (searched 0 files in .)]
        [the search stopped at the time limit; narrow it with `path`, `glob` or `type`]"#]]
    .assert_eq(&answer::<Grep>(
        &cx,
        tree.path(),
        json!({"pattern": "TODO"}),
    ));
}

#[test]
fn a_cancelled_search_is_an_error() {
    let tree = tree(FILES);
    let cx = context(&tree).cancelled_after(0);
    expect![["Interrupted cancelled: the search was cancelled"]].assert_eq(&answer::<Grep>(
        &cx,
        tree.path(),
        json!({"pattern": "TODO"}),
    ));
}

#[test]
fn long_lists_end_at_the_limit() {
    let names: Vec<String> = (0..300)
        .map(|number| format!("{number:0100}.txt"))
        .collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    let tree = tree(&files);
    for (mode, shown) in [("files_with_matches", 190), ("count", 186)] {
        let input = json!({"pattern": "x", "output_mode": mode, "head_limit": 10_000});
        let answer = answer::<Grep>(&context(&tree), tree.path(), input);
        assert!(answer.len() < 20_300, "{}", answer.len());
        let end = format!("[showing {shown} from 0; more exist: continue with `offset = {shown}`]");
        assert!(answer.ends_with(&end), "{answer}");
    }
}
