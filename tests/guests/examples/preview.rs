//! Describes its calls with every function of the interface `preview`, and guards itself with hooks.

use toolhost_sdk::prelude::*;

/// Write a file and its log.
#[tool(
    writes,
    validate = validate,
    describe_call = describe_call,
    locations = locations,
    confirm = confirm,
    render_permission = render_permission,
    render_result = render_result,
    hooks = ["pre-tool-use", "post-tool-use"]
)]
fn preview(
    /// File to write; its log has the extension `.log`.
    name: String,
    /// Number of lines.
    lines: u32,
) -> Result<Outcome> {
    let text = "line\n".repeat(lines as usize);
    std::fs::write(&name, text)?;
    std::fs::write(format!("{name}.log"), "written\n")?;
    Ok(Outcome::text(format!("wrote {lines} lines")))
}

fn validate(name: String, lines: u32) -> Result<()> {
    if lines == 0 {
        let error = Error::invalid_input(format!("`{name}` would have no lines"));
        return Err(error.code("no_lines").recommend("write at least one line"));
    }
    Ok(())
}

fn describe_call(name: String, lines: u32) -> String {
    format!("Write {lines} lines to {name}")
}

fn locations(name: String, _lines: u32) -> Vec<Location> {
    vec![
        Location::write(name.as_str()),
        Location::write(format!("{name}.log")),
    ]
}

fn confirm(_name: String, lines: u32) -> Option<String> {
    (lines > 100).then(|| format!("{lines} lines are many"))
}

fn render_permission(name: String, lines: u32) -> Vec<Display> {
    let row = vec![name, lines.to_string()];
    vec![
        Display::text("This file will be written:"),
        Display::table(&["file", "lines"], &[row]),
    ]
}

fn render_result(name: String, lines: u32, outcome: &Outcome) -> Vec<Display> {
    let text = outcome.llm.first().and_then(|part| part.text.as_deref());
    let rows: Vec<Vec<String>> = (1..=lines).map(|line| vec![line.to_string()]).collect();
    vec![
        Display::text(format!("{name}: {}", text.unwrap_or_default())),
        Display::table(&["line"], &rows),
    ]
}

/// Read nothing, and let no hook see it.
#[tool(pure)]
fn unguarded() -> String {
    "not guarded".to_owned()
}

fn before(_: &Context, call: &HookCall) -> Before {
    match call.text("name") {
        Some("secret.txt") => Before::deny("the plugin keeps its secret"),
        Some("result.txt") => Before::answer(Outcome::text("made up")),
        Some("rename.txt") => {
            let lines = &call.input["lines"];
            Before::proceed().with_input(json!({"name": "renamed.txt", "lines": lines}))
        }
        _ => Before::proceed(),
    }
}

fn after(_: &Context, call: &HookCall, _: &Outcome) -> After {
    match call.text("name") {
        Some("quiet.txt") => After::text("done"),
        _ => After::keep(),
    }
}

export_tools![preview, unguarded];
export_previews![preview];
export_hooks! { before: before, after: after }
