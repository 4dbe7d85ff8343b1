//! Hook that requires approval of commands that can destroy a machine.
//!
//! It checks the argument `command` of every call. This guards against accidents and is not a sandbox: an adversary can
//! evade it.

mod command;
mod danger;

use danger::danger_reason;
use toolhost_sdk::prelude::*;

fn before_call(_: &Context, call: &HookCall) -> Before {
    match command_of(&call.input).as_deref().and_then(danger_reason) {
        Some(reason) => {
            let meta = json!({"risk": "high", "reason": reason});
            Before::ask(reason).meta(meta)
        }
        None => Before::proceed(),
    }
}

/// The command as text; some tools take a list of words.
fn command_of(input: &Value) -> Option<String> {
    match input.get("command")? {
        Value::String(command) => Some(command.clone()),
        Value::Array(arguments) => {
            let arguments: Vec<&str> = arguments.iter().filter_map(Value::as_str).collect();
            Some(arguments.join(" "))
        }
        _ => None,
    }
}

export_hooks! { before: before_call }

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: Value, expected: Before) {
        let call = HookCall::new("shell", input);
        assert_eq!(before_call(&Context::test(), &call), expected);
    }

    #[test]
    fn r_213_a_dangerous_command_needs_approval() {
        let reason = "`rm` deletes directories recursively without confirmation";
        let expected = Before::ask(reason).meta(json!({"risk": "high", "reason": reason}));
        check(json!({"command": "rm -rf build"}), expected.clone());
        check(json!({"command": ["rm", "-rf", "build"]}), expected);
    }

    #[test]
    fn r_213_other_commands_and_other_arguments_go_their_way() {
        for input in [
            json!({"command": "ls -la"}),
            json!({"text": "rm -rf /"}),
            json!({"command": 7}),
            json!({}),
            json!(null),
        ] {
            check(input, Before::proceed());
        }
    }
}
