//! Errors of `shell`, and the choice of the shell.

use super::*;

fn check_shells(bash: &'static str, sh: &'static str, expected: Expect) {
    let tried = Rc::new(RefCell::new(Vec::new()));
    let recorded = Rc::clone(&tried);
    let cx = patient().with_service("process.run", move |input| {
        let program = input["program"].as_str().unwrap().to_owned();
        let code = if program == "bash" { bash } else { sh };
        recorded.borrow_mut().push(program.clone());
        if code.is_empty() {
            return Ok(serde_json::to_value(finished("ok", "", exited(0)))?);
        }
        Err(Error::denied(format!("no `{program}` here")).code(code))
    });
    let result = testing::call::<shell>(&cx, json!({"command": "x"}));
    let text = shown(result);
    let text = if text.contains("<stdout>") {
        "ran"
    } else {
        &text
    };
    expected.assert_eq(&format!("{} {text}", tried.borrow().join(",")));
}

#[test]
fn sh_is_the_fallback() {
    check_shells("", "", expect!["bash ran"]);
    check_shells("program_not_allowed", "", expect!["bash,sh ran"]);
    check_shells("program_not_found", "", expect!["bash,sh ran"]);
    check_shells(
        "program_not_allowed",
        "program_not_found",
        expect![[r#"
        bash,sh Denied program_not_allowed: neither bash nor sh can be run here: no `bash` here
          ask the user to allow the program `bash` or `sh` for this host
          read, search and change files with read_file, grep, glob and edit_file, which need no program"#]],
    );
    check_shells(
        "unconfined",
        "",
        expect!["bash Denied unconfined: no `bash` here"],
    );
    check_shells(
        "program_not_found",
        "unconfined",
        expect!["bash,sh Denied unconfined: no `sh` here"],
    );
}

#[test]
fn invalid_commands() {
    let many: serde_json::Map<String, Value> = (0..65)
        .map(|number| (format!("V{number}"), json!("x")))
        .collect();
    for (input, expected) in [
        (
            json!({}),
            expect!["InvalidInput invalid_input: `command` is missing"],
        ),
        (
            json!({"command": ""}),
            expect![
                "InvalidInput invalid_input: `command`: a length of 0 is less than the minimum of 1"
            ],
        ),
        (
            json!({"command": 7}),
            expect!["InvalidInput invalid_input: `command`: 7 is not of type string"],
        ),
        (
            json!({"command": " \n"}),
            expect!["InvalidInput invalid_command: `command` is blank; pass the command to run"],
        ),
        (
            json!({"command": "a\0b"}),
            expect![[
                r#"InvalidInput invalid_command: `command` has a NUL at byte 1, where a shell would stop; write `\0` for printf"#
            ]],
        ),
        (
            json!({"command": "é".repeat(70_000)}),
            expect![[r#"
            InvalidInput invalid_command: `command` has 140000 bytes; the limit is 131071
              write the text to a file with write_file and run that"#]],
        ),
        (
            json!({"command": "x", "cwd": " "}),
            expect![
                "InvalidInput invalid_path: `cwd` is empty; omit it to run in the first workspace directory"
            ],
        ),
        (
            json!({"command": "x", "timeout_ms": 600_001}),
            expect![
                "InvalidInput invalid_input: `timeout_ms`: 600001 is more than the maximum of 600000"
            ],
        ),
        (
            json!({"command": "x", "timeout": 0}),
            expect!["InvalidInput invalid_input: `timeout_ms`: 0 is less than the minimum of 1"],
        ),
        (
            json!({"command": "x", "max_output_chars": 10}),
            expect![
                "InvalidInput invalid_input: `max_output_chars`: 10 is less than the minimum of 1000"
            ],
        ),
        (
            json!({"command": "x", "delay_ms": 60_001}),
            expect![
                "InvalidInput invalid_input: `delay_ms`: 60001 is more than the maximum of 60000"
            ],
        ),
        (
            json!({"command": "x", "env": {"A=B": "c"}}),
            expect![[
                r#"InvalidInput invalid_environment: "A=B" is not a valid variable of `env`: a name must not contain `=`, and neither name nor value NUL"#
            ]],
        ),
        (
            json!({"command": "x", "env": {"": "c"}}),
            expect![[
                r#"InvalidInput invalid_environment: "" is not a valid variable of `env`: a name must not contain `=`, and neither name nor value NUL"#
            ]],
        ),
        (
            json!({"command": "x", "env": many}),
            expect![
                "InvalidInput invalid_environment: `env` has 65 variables; the limit is 64, write the others to a file"
            ],
        ),
        (
            json!({"command": "x", "shell": "zsh"}),
            expect!["InvalidInput invalid_input: `shell` is not known"],
        ),
        // The host's own error is passed on; here there is no host.
        (
            json!({"command": "x"}),
            expect![
                "Denied service_not_granted: no `process.run` configured; set it up with `with_service`"
            ],
        ),
    ] {
        expected.assert_eq(&shown(testing::call::<shell>(&patient(), input)));
    }
}
