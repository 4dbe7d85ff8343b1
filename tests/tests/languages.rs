//! A small tool in each language, and a tool in each language of an SDK that uses all services and hooks. A language
//! without a toolchain is skipped, with the reason on stderr; one that `TOOLHOST_REQUIRE_SAMPLES` names fails instead.

#[path = "languages/services.rs"]
mod services;

use std::io::Write as _;
use std::{env, fs};

use e2e::terminal::{KEYS, Terminal};
use e2e::{CommandResult, host, run, target};
use serde_json::{Value, json};

use self::services::Sample;

/// A sample, or `None` with a message that it was skipped.
fn sample(language: &str, component: &str) -> Option<String> {
    let samples = target().join("samples");
    if let Ok(reason) = fs::read_to_string(samples.join(format!("{language}.skipped"))) {
        let required = env::var("TOOLHOST_REQUIRE_SAMPLES").unwrap_or_default();
        assert!(
            !required.split(',').any(|name| name == language),
            "the {language} sample was not built: {}",
            reason.trim()
        );
        // Bypasses the output capture of the test harness, so that a skipped test is visible.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: the {language} sample was not built: {}",
            reason.trim()
        );
        return None;
    }
    let plugin = samples.join(format!("{component}.wasm"));
    assert!(
        plugin.exists(),
        "{} is neither built nor skipped; run `cargo xtask samples`",
        plugin.display()
    );
    Some(plugin.to_string_lossy().into_owned())
}

fn call(plugin: &str, tool: &str, input: &Value, flags: &[&str]) -> (Value, CommandResult) {
    let input = input.to_string();
    let mut args = vec!["call", tool, &input, "--json", "--plugins", plugin];
    args.extend(flags);
    let ended = run(&args);
    let report = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    (report, ended)
}

/// `reports` are beginnings of the lines with which the call reports its progress.
fn check(language: &str, tool: &str, reports: &[&str]) {
    let Some(plugin) = sample(language, language) else {
        return;
    };
    let call = |input: &Value| call(&plugin, tool, input, &[]);

    let (report, ended) = call(&json!({"text": "to be or not to be"}));
    assert_eq!(
        report["outcome"]["structured"],
        json!({"words": 6}),
        "{report} {}",
        ended.stderr
    );
    assert_eq!(report["outcome"]["content"][0]["text"], "6 words");
    assert_eq!(ended.code, Some(0));
    for report in reports {
        let mut lines = ended.stderr.lines();
        assert!(
            lines.any(|line| line.starts_with(report)),
            "{report}: {}",
            ended.stderr
        );
    }
    for line in ended.stderr.lines() {
        if let Some(remaining) = line.strip_prefix(REMAINING) {
            let remaining = remaining.strip_suffix(" ms").unwrap_or(remaining);
            assert!(remaining.parse::<u32>().is_ok_and(|ms| ms > 0), "{line}");
        }
    }

    let (report, ended) = call(&json!({"text": ""}));
    assert_eq!(report["error"]["class"], "invalid_tool_params", "{report}");
    assert_eq!(ended.code, Some(2));

    let (report, _) = call(&json!({"texd": "x"}));
    assert!(
        report["error"]["message"]
            .as_str()
            .is_some_and(|text| text.contains("text")),
        "{report}"
    );
}

/// The log message of a tool that uses all functions of the interface `host`, up to the remaining time.
const REMAINING: &str = "info counting within ";

fn check_sdk(language: &str, tool: &str) {
    check(language, tool, &[REMAINING, "progress 1/1 counted"]);
}

/// A tool with all functions of the interface `preview`.
fn check_previews(plugin: &str, tool: &str) {
    let call = |to: &str, text: &str, flags: &[&str]| {
        let input = json!({"to": to, "text": text});
        call(plugin, tool, &input, flags)
    };
    let message = |report: &Value| report["error"]["message"].as_str().unwrap().to_owned();

    let (report, ended) = call("Ann", "hello", &[]);
    assert_eq!(
        report["outcome"]["content"][0]["text"], "Dear Ann, hello",
        "{report}"
    );
    assert_eq!(
        report["rendering"],
        json!([{"kind": "text", "text": "To Ann: Dear Ann, hello"}])
    );
    assert!(
        ended.stderr.contains("Write a postcard to Ann"),
        "{ended:?}"
    );

    let (report, _) = call("Ann", &"a".repeat(201), &[]);
    assert_eq!(message(&report), "the text does not fit on a postcard");
    assert_eq!(
        report["error"]["recommendations"],
        json!(["use 200 characters"])
    );

    let (report, _) = call("Mars", "hello", &["--allow-tool", "*"]);
    assert!(
        message(&report).contains("the price is not known in advance"),
        "{report}"
    );

    let rule = format!("{tool}(addresses/Ann.txt)");
    let (report, _) = call("Ann", "hello", &["--deny-tool", &rule]);
    assert_eq!(report["error"]["code"], "policy_violation", "{report}");

    let input = json!({"to": "Mars", "text": "see you"}).to_string();
    let mut terminal = Terminal::start(&host(&["call", tool, &input, "--plugins", plugin]), "");
    terminal.wait_for(KEYS);
    terminal.type_keys("n");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(5), "{screen}");
    for shown in [
        "Write a postcard to Mars",
        "the tool shows",
        "Mars | see you",
    ] {
        assert!(screen.contains(shown), "{shown}: {screen}");
    }
}

/// The sample for services and hooks.
fn services_sample(language: &str, suffix: &'static str) -> Option<Sample> {
    let component = sample(language, &format!("{language}-complete"))?;
    let manifest = format!("{language}/examples/services/plugin.toml");
    Some(Sample::pack(&component, &manifest, suffix))
}

fn check_services(language: &str, suffix: &'static str) {
    if let Some(sample) = services_sample(language, suffix) {
        sample.check_services();
    }
}

fn check_hooks(language: &str, suffix: &'static str) {
    if let Some(sample) = services_sample(language, suffix) {
        sample.check_hooks();
    }
}

#[test]
fn a_tool_in_rust() {
    check_sdk("rust", "word_count_rs");
}

#[test]
fn a_tool_in_python() {
    check_sdk("python", "word_count_py");
}

#[test]
fn a_tool_in_javascript() {
    check_sdk("javascript", "word_count_js");
}

#[test]
fn a_tool_in_c() {
    check_sdk("c", "word_count_c");
}

#[test]
fn a_tool_in_assemblyscript() {
    check(
        "assemblyscript",
        "word_count_as",
        &["info counting words", "progress counting"],
    );
}

#[test]
fn a_tool_in_go() {
    check("plugin-go", "word_count_go", &["progress counting"]);
}

#[test]
fn a_tool_in_python_describes_its_calls() {
    if let Some(sample) = services_sample("python", "py") {
        check_previews(&sample.plugin(), "postcard_py");
        sample.check_validation("internal_error");
    }
}

#[test]
fn a_tool_in_javascript_describes_its_calls() {
    if let Some(sample) = services_sample("javascript", "js") {
        check_previews(&sample.plugin(), "postcard_js");
        sample.check_validation("internal_error");
    }
}

#[test]
fn a_tool_in_c_describes_its_calls() {
    if let Some(plugin) = sample("c", "c-previews") {
        check_previews(&plugin, "postcard_c");
    }
    if let Some(sample) = services_sample("c", "c") {
        sample.check_validation("validation_failed");
    }
}

#[test]
fn a_tool_in_rust_uses_all_services() {
    check_services("rust", "rs");
}

#[test]
fn hooks_in_rust_guard_a_tool() {
    check_hooks("rust", "rs");
}

#[test]
fn a_tool_in_python_uses_all_services() {
    check_services("python", "py");
}

#[test]
fn hooks_in_python_guard_a_tool() {
    check_hooks("python", "py");
}

#[test]
fn a_tool_in_javascript_uses_all_services() {
    check_services("javascript", "js");
}

#[test]
fn hooks_in_javascript_guard_a_tool() {
    check_hooks("javascript", "js");
}

#[test]
fn the_python_sdk_reports_values_of_wrong_types() {
    if let Some(sample) = services_sample("python", "py") {
        sample.check_values();
    }
}

#[test]
fn the_javascript_sdk_reports_values_of_wrong_types() {
    if let Some(sample) = services_sample("javascript", "js") {
        sample.check_values();
    }
}

#[test]
fn a_hook_in_javascript_keeps_the_numbers_of_an_input() {
    if let Some(sample) = services_sample("javascript", "js") {
        sample.check_numbers();
        sample.check_random_numbers();
    }
}

#[test]
fn a_tool_in_c_uses_all_services() {
    check_services("c", "c");
}

#[test]
fn hooks_in_c_guard_a_tool() {
    check_hooks("c", "c");
}
