//! Every guest in `tests/guests` against the real program. Each must end typed, and leave nothing behind.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use e2e::test_env::poll_until;
use e2e::{CommandResult, Guest, host, root, run};
use serde_json::{Value, json};

/// Calls a guest that needs nothing, with a second's time.
fn error_of(name: &str) -> Value {
    let (report, ended) = Guest::new(name, &[], "timeout = \"1s\"").call(&json!({}), &[]);
    assert_eq!(report["ok"], json!(false), "{report}");
    assert!(ended.code.is_some_and(|code| code > 0), "{ended:?}");
    report["error"].clone()
}

fn text(report: &Value) -> &str {
    report["outcome"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{report}"))
}

/// The limits are there before the first byte of the component is read.
#[test]
fn a_compiler_limits_itself_before_it_reads() {
    let mut command = host(&["compile-worker"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap();
    // The last limit.
    poll_until(|| of("status").contains("NoNewPrivs:\t1").then_some(()));
    let limits = of("limits");
    for (name, limits_of) in [
        ("Max cpu time", ["120", "121"]),
        ("Max address space", ["4294967296"; 2]),
        ("Max file size", ["0"; 2]),
        ("Max core file size", ["0"; 2]),
    ] {
        let line = limits.lines().find(|line| line.starts_with(name));
        let words: Vec<&str> = line.unwrap()[name.len()..].split_whitespace().collect();
        assert_eq!(words[..2], limits_of, "{limits}");
    }
    drop(child.stdin.take());
    let ended = CommandResult::of(&child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(1), "no bytes are no component: {ended:?}");
}

#[test]
fn a_spinning_guest_times_out() {
    let error = error_of("spin");
    assert_eq!(error["class"], "timeout");
    assert_eq!(error["message"], "Tool execution timed out after 1000ms");
}

#[test]
fn a_guest_that_waits_inside_the_host_times_out() {
    assert_eq!(error_of("sleep_for_ever")["class"], "timeout");
}

#[test]
fn a_memory_bomb_ends_at_its_limit() {
    let (report, _) = Guest::new("memory_bomb", &[], "memory = \"16MiB\"").call(&json!({}), &[]);
    assert_eq!(report["error"]["class"], "resource_limit", "{report}");
    assert_eq!(report["error"]["code"], "out_of_memory");
    assert_eq!(
        report["error"]["message"],
        "the tool needs more than 16777216 bytes of memory"
    );
}

#[test]
fn recursion_ends_and_the_host_lives() {
    let error = error_of("recursion");
    assert_eq!(error["class"], "stack_overflow", "{error}");
}

#[test]
fn c_11_a_panic_is_reported_once_with_readable_names() {
    let guest = Guest::new("panic", &[], "");
    let ended = run(&[
        "call",
        "panic",
        "--plugins",
        &guest.plugin().to_string_lossy(),
    ]);
    let count = ended.stderr.matches("of the panic").count();
    assert_eq!(count, 1, "{}", ended.stderr);
    assert!(!ended.stderr.contains("<unknown>"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("_ZN"), "{}", ended.stderr);
}

/// The stack of most guests is in linear memory, and its end is the beginning of that memory.
#[test]
fn c_11_deep_recursion_is_a_stack_overflow_wherever_the_stack_is() {
    let guest = Guest::new("recursion", &[], "");
    let (report, _) = guest.call_tool("wide_recursion", &json!({}), &[]);
    assert_eq!(report["error"]["class"], "stack_overflow", "{report}");
}

#[test]
fn a_panic_is_a_trap_with_the_guests_last_words_made_safe() {
    let error = error_of("panic");
    assert_eq!(error["class"], "trap");
    let stderr = error["stderr"].as_str().unwrap();
    assert!(
        stderr.contains(r"the reason\u{1b}[2J of the panic"),
        "{stderr}"
    );
}

#[test]
fn an_exit_ends_the_guest_and_not_the_host() {
    let error = error_of("exit");
    assert_eq!(
        (error["class"].as_str(), error["code"].as_str()),
        (Some("trap"), Some("guest_exit"))
    );
}

#[test]
fn a_result_of_100_megabytes_is_over_the_limit() {
    let (report, _) = Guest::new("big_output", &[], "memory = \"256MiB\"").call(&json!({}), &[]);
    assert_eq!(report["error"]["class"], "output_limit", "{report}");
}

#[test]
fn the_limit_of_a_result_is_what_the_manifest_says() {
    let guest = Guest::new("big_output", &[], "memory = \"256MiB\"\noutput = \"16MiB\"");
    for (mebibytes, class) in [(15, Value::Null), (17, json!("output_limit"))] {
        let (report, _) = guest.call(&json!({"bytes": mebibytes << 20}), &[]);
        assert_eq!(
            report["error"]["class"], class,
            "{mebibytes} MiB: {}",
            report["error"]
        );
    }
}

#[test]
fn a_flood_of_standard_output_ends_the_call() {
    assert_eq!(error_of("stdout_flood")["class"], "output_limit");
    // A tool that handles the error of the stream is told the reason.
    let (report, _) = Guest::new("stdout_flood", &[], "").call_tool("stdout_full", &json!({}), &[]);
    let advice = report["error"]["recommendations"].to_string();
    assert!(
        advice.contains("more than its limit to standard output"),
        "{report}"
    );
}

#[test]
fn a_flood_of_logs_is_cut_and_counted() {
    let (report, ended) = Guest::new("log_flood", &[], "").call(&json!({}), &[]);
    assert_eq!(text(&report), "done");
    assert!(
        ended.stderr.len() < 2_000_000,
        "{} bytes of log",
        ended.stderr.len()
    );
    assert!(
        !ended.stderr.contains('\u{1b}'),
        "escapes reach the terminal"
    );
}

#[test]
fn what_a_guest_prints_never_reaches_standard_output() {
    let (report, ended) = Guest::new("fake_frames", &[], "").call(&json!({}), &[]);
    assert_eq!(text(&report), "done");
    assert!(!ended.stdout.contains("forged"), "{}", ended.stdout);
}

#[test]
fn every_call_has_a_fresh_instance() {
    let (report, _) = Guest::new("counter", &[], "").call(&json!({}), &[]);
    assert_eq!(report["outcome"]["structured"], json!(1), "{report}");
}

#[test]
fn a_guest_sees_no_variable_that_was_not_granted_and_no_arguments() {
    let guest = Guest::new("environment", &["env:GRANTED"], "");
    let plugin = guest.plugin();
    let call = |flags: &[&str]| {
        let plugin = plugin.to_string_lossy().into_owned();
        let mut args = vec!["call", "environment", "{}", "--json", "--plugins", &plugin];
        args.extend(flags);
        let output = e2e::host(&args)
            .env("GRANTED", "yes")
            .env("SECRET", "no")
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        text(&report).to_owned()
    };
    assert_eq!(call(&[]), "variables [] arguments []");
    assert_eq!(
        call(&["--allow-env", "GRANTED"]),
        r#"variables ["GRANTED=yes"] arguments []"#
    );
    // Allowed by the operator, not asked for by the plugin.
    assert_eq!(
        call(&["--allow-env", "SECRET"]),
        "variables [] arguments []"
    );
}

/// A tool that read the host's standard input would take the messages of its client.
#[test]
fn the_standard_input_of_a_tool_is_empty() {
    let guest = Guest::new("reads_stdin", &[], "");
    let plugin = guest.plugin();
    let plugin = plugin.to_string_lossy();
    let turn = r#"{"calls": [{"id": "1", "name": "reads_stdin", "input": {}}]}"#;
    for (arguments, calls) in [
        (&["call", "reads_stdin", "{}", "--json"][..], 1),
        (&["turns"], 2),
    ] {
        let file = guest.workspace().join("input");
        fs::write(&file, format!("{turn}\n{turn}\n")).unwrap();
        let mut command = host(arguments);
        command.args(["--plugins", &plugin]);
        command.stdin(fs::File::open(&file).unwrap());
        let ended = CommandResult::of(&command.output().unwrap());
        let mut lines = ended.stdout.lines();
        let read_nothing = |line: &&str| line.contains("\"read 0 bytes\"");
        let count = lines.by_ref().filter(read_nothing).count();
        assert_eq!(count, calls, "{arguments:?}: {ended:?}");
    }
}

#[test]
fn there_is_no_network() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (report, _) = Guest::new("network", &[], "").call(&json!({"address": address}), &[]);
    assert_eq!(text(&report), "tcp false udp false name false");
}

#[test]
fn the_host_keeps_no_long_parts_of_requests_that_are_not_sent() {
    let guest = Guest::new("network", &[], "");
    let parts = |length: u32| {
        let (report, _) = guest.call_tool("request_parts", &json!({"length": length}), &[]);
        text(&report).to_owned()
    };
    assert_eq!(parts(10), "method true path true authority true");
    assert_eq!(parts(1_000), "method false path true authority false");
    assert_eq!(parts(1 << 20), "method false path false authority false");
}

#[test]
fn json_nested_a_hundred_thousand_levels_deep_is_an_error() {
    let error = error_of("nested_json");
    assert_eq!(error["code"], "invalid_output", "{error}");
}

#[test]
fn a_guest_cannot_hoard_open_files() {
    let guest = Guest::new("open_many", &["fs.read"], "");
    fs::write(guest.workspace().join("f.txt"), "x").unwrap();
    let workspace = guest.workspace();
    let (report, _) = guest.call(
        &json!({"path": "f.txt"}),
        &["--allow-path", &workspace.to_string_lossy()],
    );
    assert_eq!(report["error"]["class"], "resource_limit", "{report}");
}

/// The fixture of the escape tests: a workspace full of links that lead out, and a canary beside it.
fn trap(workspace: &Path) {
    fs::write(workspace.parent().unwrap().join("secret"), "CANARY").unwrap();
    fs::write(workspace.join("f.txt"), "inside").unwrap();
    fs::create_dir(workspace.join("sub")).unwrap();
    for (target, link) in [
        ("../secret", "link"),
        ("..", "dirlink"),
        ("link", "chain"),
        ("../link", "sub/chain"),
        ("/etc", "absolutedir"),
        ("/proc/self/root", "procroot"),
        ("/proc/self/environ", "procself"),
    ] {
        symlink(target, workspace.join(link)).unwrap();
    }
    symlink(
        workspace.parent().unwrap().join("secret"),
        workspace.join("absolute"),
    )
    .unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn no_way_leads_out_of_a_granted_folder() {
    let guest = Guest::new("escape", &["fs.read", "fs.write"], "");
    trap(&guest.workspace());
    let outside = guest.workspace().parent().unwrap().to_owned();
    let before = names(&outside);
    let grant = format!("{}:rw", guest.workspace().display());
    let (report, _) = guest.call(
        &json!({"canary": "CANARY"}),
        &["--allow-path", &grant, "--allow-tool", "escape"],
    );
    assert_eq!(report["outcome"]["structured"], json!([]), "{report}");
    assert_eq!(names(&outside), before);
    assert_eq!(
        fs::read_to_string(outside.join("secret")).unwrap(),
        "CANARY"
    );
}

#[test]
fn a_tool_that_says_it_only_reads_can_only_read() {
    let guest = Guest::new("liar", &["fs.read", "fs.write"], "");
    fs::write(guest.workspace().join("f.txt"), "inside").unwrap();
    let grant = format!("{}:rw", guest.workspace().display());
    let (report, _) = guest.call(&json!({}), &["--allow-path", &grant]);
    assert_eq!(text(&report), "made false overwritten false removed false");
    assert_eq!(names(&guest.workspace()), ["f.txt"]);
}

#[test]
fn special_files_do_not_open_and_do_not_block() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let guest = Guest::new("special_files", &["fs.read"], "timeout = \"5s\"");
    let workspace = guest.workspace();
    fs::write(workspace.join("plain"), "x").unwrap();
    mknodat(
        CWD,
        workspace.join("fifo"),
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(workspace.join("socket")).unwrap();
    let (report, _) = guest.call(
        &json!({"names": ["plain", "fifo", "socket", "fifo", "fifo"]}),
        &["--allow-path", &workspace.to_string_lossy()],
    );
    assert_eq!(
        report["outcome"]["structured"],
        json!(["plain"]),
        "{report}"
    );
}

#[test]
fn a_directory_of_twenty_thousand_entries_is_over_the_limit() {
    let guest = Guest::new("huge_directory", &["fs.read"], "");
    for number in 0..20_000 {
        fs::File::create(guest.workspace().join(number.to_string())).unwrap();
    }
    let workspace = guest.workspace();
    let (report, _) = guest.call(
        &json!({"path": "."}),
        &["--allow-path", &workspace.to_string_lossy()],
    );
    assert_eq!(report["ok"], json!(false), "{report}");
}

#[test]
fn the_benchmark_of_the_file_system_reads_what_is_there() {
    let guest = Guest::new("bench_files", &["fs.read"], "");
    let workspace = guest.workspace();
    fs::write(workspace.join("large"), "x".repeat(200_000)).unwrap();
    for (kind, path, expected) in [("large", "large", 200_000), ("list", ".", 1)] {
        let (report, _) = guest.call(
            &json!({"what": kind, "path": path}),
            &["--allow-path", &workspace.to_string_lossy()],
        );
        assert_eq!(report["outcome"]["structured"], json!(expected), "{report}");
    }
}

#[test]
fn a_name_that_steers_a_terminal_is_refused_and_shown_escaped() {
    let guest = Guest::new("hostile_name", &[], "");
    let ended = run(&["tools", "--plugins", &guest.plugin().to_string_lossy()]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(
        ended.stderr.contains(r"read\u{1b}[2J\u{202e}file"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains('\u{1b}'));
}

#[test]
fn a_plugin_that_loops_while_it_is_loaded_does_not_stop_the_others() {
    let guest = Guest::new("spinning_describe", &[], "");
    let good = Guest::new("counter", &[], "");
    let ended = run(&[
        "tools",
        "--json",
        "--plugins",
        &guest.plugin().to_string_lossy(),
        "--plugins",
        &good.plugin().to_string_lossy(),
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("counter"), "{}", ended.stdout);
    assert!(
        ended.stderr.contains("cannot describe its tools"),
        "{}",
        ended.stderr
    );
}

#[test]
fn every_guest_has_a_test() {
    let files = [
        "sandbox",
        "staged",
        "staged_bad_input/scene",
        "hooks",
        "optimistic",
        "services/main",
        "services/net",
        "services/programs",
        "wasi_files/main",
        "conformance",
        "previews",
        "descriptor_fields",
        "plain_functions",
    ];
    let tests = files
        .map(|name| fs::read_to_string(root().join(format!("tests/tests/{name}.rs"))).unwrap())
        .concat();
    for guest in names(&root().join("tests/guests/examples")) {
        let name = guest.trim_end_matches(".rs");
        assert!(
            tests.contains(&format!("\"{name}\"")),
            "no test calls the guest {name}"
        );
    }
}
