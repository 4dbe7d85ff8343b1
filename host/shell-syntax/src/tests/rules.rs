//! Tests of command patterns in `Bash(…)` rules.

use super::*;
use expect_test::expect;

/// Rows of a pattern and commands, marked `+` (an allow rule covers it), `?` (only a deny rule does) or `-`.
fn check_rules(rows: &[(&str, &[&str])], expect: Expect) {
    let mut out = String::new();
    for (pattern, commands) in rows {
        let compiled = match CommandPattern::parse(pattern) {
            Ok(compiled) => compiled,
            Err(reason) => {
                let _ = writeln!(out, "{pattern:?}\n    ! {reason}");
                continue;
            }
        };
        let _ = writeln!(out, "{pattern}");
        for line in *commands {
            let marks: String = parse(line)
                .expect("a readable command")
                .commands
                .iter()
                .map(
                    |command| match (compiled.matches(command), compiled.may_match(command)) {
                        (true, true) => '+',
                        (false, true) => '?',
                        (false, false) => '-',
                        (true, false) => 'X',
                    },
                )
                .collect();
            let _ = writeln!(out, "    {marks} {line}");
        }
    }
    expect.assert_eq(&out);
}

#[test]
fn patterns_match_whole_words_of_one_command() {
    check_rules(
        &[
            (
                "git *",
                &[
                    "git",
                    "git status",
                    "gitx",
                    "gitx status",
                    "git-x",
                    "git status && rm x",
                    "/usr/bin/git log",
                    "./git log",
                    "GIT log",
                    "GIT_SSH_COMMAND=x git fetch",
                    "LANG=C git log",
                    "git $x",
                    "$x log",
                    "\"git\" log",
                    "'git log'",
                    "g\\it log",
                    "sudo git log",
                    "$(git log) x",
                    "x=1",
                ],
            ),
            ("git:*", &["git", "git status", "gitx"]),
            (
                "npm run test:*",
                &[
                    "npm run test",
                    "npm run test -- -x",
                    "npm run test:unit",
                    "npm run",
                    "npm run $x",
                    "npm $x",
                ],
            ),
            (
                "npm run test",
                &[
                    "npm run test",
                    "npm  run  test",
                    "npm run test x",
                    "npm run $x",
                    "npm run",
                    "npm $x",
                    "npm run build $x",
                ],
            ),
            ("*", &["ls", "$x", "a && b", "PATH=x ls", "x=1"]),
            (
                "git * main",
                &[
                    "git push main",
                    "git push origin main",
                    "git main",
                    "git push mainx",
                    "git push $x",
                    "git push $x main",
                    "ls main",
                ],
            ),
            (
                "* --version",
                &[
                    "ls --version",
                    "git x --version",
                    "ls",
                    "$x --version",
                    "'a b' --version",
                ],
            ),
            (
                "git commit -m \"fix it\"",
                &["git commit -m 'fix it'", "git commit -m fix"],
            ),
            (
                "rm -rf *",
                &[
                    "rm -rf x",
                    "rm -rf",
                    "rm -fr x",
                    "rm -rf *",
                    "rm $x",
                    "/bin/rm -rf x",
                    "rm -r x",
                ],
            ),
            ("git *:*", &["git a b", "git"]),
            ("/bin/rm *", &["rm x", "/bin/rm x"]),
            ("", &[]),
            (":*", &[]),
            (" ", &[]),
            ("a\u{7}b", &[]),
            ("git 'x", &[]),
        ],
        expect![[r#"
            git *
                + git
                + git status
                - gitx
                - gitx status
                - git-x
                +- git status && rm x
                + /usr/bin/git log
                ? ./git log
                ? GIT log
                ? GIT_SSH_COMMAND=x git fetch
                + LANG=C git log
                ? git $x
                ? $x log
                + "git" log
                - 'git log'
                + g\it log
                -+ sudo git log
                ?+ $(git log) x
                - x=1
            git:*
                + git
                + git status
                - gitx
            npm run test:*
                + npm run test
                + npm run test -- -x
                - npm run test:unit
                - npm run
                ? npm run $x
                ? npm $x
            npm run test
                + npm run test
                + npm  run  test
                - npm run test x
                ? npm run $x
                - npm run
                ? npm $x
                - npm run build $x
            *
                + ls
                + $x
                ++ a && b
                ? PATH=x ls
                ? x=1
            git * main
                + git push main
                + git push origin main
                - git main
                - git push mainx
                ? git push $x
                ? git push $x main
                - ls main
            * --version
                + ls --version
                + git x --version
                - ls
                ? $x --version
                ? 'a b' --version
            git commit -m "fix it"
                + git commit -m 'fix it'
                - git commit -m fix
            rm -rf *
                + rm -rf x
                + rm -rf
                ? rm -fr x
                + rm -rf *
                ? rm $x
                + /bin/rm -rf x
                - rm -r x
            git *:*
                + git a b
                - git
            /bin/rm *
                ? rm x
                + /bin/rm x
            ""
                ! an empty command pattern matches nothing; write `*` for every command
            ":*"
                ! the command pattern `:*` names no program
            " "
                ! an empty command pattern matches nothing; write `*` for every command
            "a\u{7}b"
                ! the command pattern `a\u{7}b` is too long or contains control characters
            "git 'x"
                ! a quote in the command pattern `git 'x` is never closed
        "#]],
    );
}
