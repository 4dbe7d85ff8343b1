//! A program that has the host inside of it.

#[path = "embed/mcp_servers.rs"]
mod mcp_servers;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use e2e::{root, target};
use serde_json::json;
use toolhost::{
    Access, Answer, Backend, BatchCall, BoxFuture, Builder, Call, CallError, CallId, CallRequest,
    CallbackPrompter, Decision, Descriptor, Durability, Error, Format, FrontEnd, Grant, Mode,
    NoSink, Outcome, PluginInfo, PluginName, Policy, PolicySpec, Principal, Profile, RuleSpec,
    SessionKey, Sink, ToolName, TurnOutcome, UserId,
};
use toolhost_contract::policy::ApprovalScope;

fn builder() -> Builder {
    Builder::new().cache(target().join("test-cache"))
}

fn files() -> Builder {
    builder().plugins(root().join("plugins/files.wasm"))
}

fn text(report: &toolhost::Report) -> String {
    match &report.result {
        Ok(outcome) => outcome.model_text(),
        Err(error) => format!("{}: {}", error.code, error.for_model()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_granted_until_it_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "hello\n").unwrap();
    let read = json!({"path": "/workspace/a.txt"});
    let host = files().build().await.unwrap();
    let report = host.call("read_file", read.clone()).await;
    assert!(report.result.is_err() || report.result.as_ref().unwrap().is_error());

    let host = files()
        .allow_path(folder.path(), Access::ReadOnly)
        .build()
        .await
        .unwrap();
    let report = host.call("read_file", read).await;
    assert!(text(&report).contains("hello"), "{}", text(&report));
    // The grant is read-only, and no user is available.
    let write = json!({"path": "/workspace/b.txt", "content": "x"});
    let report = host.call("write_file", write).await;
    assert!(report.result.is_err(), "{}", text(&report));
    assert!(!folder.path().join("b.txt").exists());
    host.shut_down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedder_answers_prompts_and_sets_rules() {
    let write = |name: &str| json!({"path": format!("/workspace/{name}"), "content": "x"});
    for (rule, prompted, made) in [
        (None, false, false),
        (None, true, true),
        (Some(Decision::Allow), false, true),
        (Some(Decision::Deny), true, false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut builder = files().allow_path(folder.path(), Access::ReadWrite);
        if prompted {
            builder = builder.prompter(Arc::new(CallbackPrompter::new("a window", answer)));
        }
        if let Some(decision) = rule {
            builder = builder.rule(decision, "write_file");
        }
        let host = builder.build().await.unwrap();
        let report = host.call("write_file", write("n.txt")).await;
        let there = folder.path().join("n.txt").exists();
        assert_eq!(there, made, "{rule:?} {prompted}: {}", text(&report));
    }
}

/// Otherwise an answer would apply to other programs that share the store, and to later runs.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_for_the_session_ends_with_its_host() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("files");
    fs::create_dir(&folder).unwrap();
    for _ in 0..2 {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let allow = move |question: toolhost::Question, _| {
            count.fetch_add(1, Ordering::SeqCst);
            let mut offers = question.offers.iter();
            let offer = offers.position(|offer| offer.scope == ApprovalScope::Session);
            let offer = offer.expect("an approval for the session is offered");
            std::future::ready(Answer::Allow { offer, note: None })
        };
        let host = files()
            .allow_path(&folder, Access::ReadWrite)
            .store(dir.path().join("store"), Durability::default())
            .prompter(Arc::new(CallbackPrompter::new("a window", allow)))
            .build()
            .await
            .unwrap();
        for content in ["a", "b"] {
            let input = json!({"path": "/workspace/a.txt", "content": content});
            let report = host.call("write_file", input).await;
            assert!(report.result.is_ok(), "{}", text(&report));
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        host.shut_down().await.unwrap();
    }
}

async fn answer(question: toolhost::Question, _: Call) -> Answer {
    match question.tool.as_str() {
        "write_file" => Answer::once(),
        _ => Answer::Deny { note: None },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_answered_in_order_and_heard() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "hello\n").unwrap();
    let host = files()
        .allow_path(folder.path(), Access::ReadOnly)
        .mode(Mode::Default)
        .build()
        .await
        .unwrap();
    let mut events = host.events();
    let call = |id: &str, name: &str| BatchCall {
        id: CallId(id.to_owned()),
        tool: "read_file".to_owned(),
        only_paths: None,
        input: json!({"path": format!("/workspace/{name}")}),
    };
    let reports = host
        .batch(vec![call("1", "gone.txt"), call("2", "a.txt")])
        .await
        .unwrap();
    assert!(text(&reports[0]).contains("gone.txt"));
    assert!(text(&reports[1]).contains("hello"));
    assert!(events.next().await.is_ok());

    let turn = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "/workspace/a.txt"}},
        {"type": "tool_use", "id": "t2", "name": "nothing", "input": {}},
    ]});
    for _ in 0..2 {
        // The same ids again, as some models say them.
        let TurnOutcome::Results(answer) = host.turn(Format::Anthropic, &turn).await.unwrap()
        else {
            panic!("the turn has calls");
        };
        let blocks = answer["content"].as_array().unwrap();
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks[0]["tool_use_id"], "t1");
        assert!(blocks[0].to_string().contains("hello"), "{answer}");
        assert_eq!(blocks[1]["is_error"], true);
    }
    let silent = json!({"role": "assistant", "content": [{"type": "text", "text": "done"}]});
    let outcome = host.turn(Format::Anthropic, &silent).await.unwrap();
    assert_eq!(outcome, TurnOutcome::Done);
    let stopped = json!({"candidates": [{"finishReason": "MAX_TOKENS"}]});
    let outcome = host.turn(Format::Gemini, &stopped).await.unwrap();
    let reason = "MAX_TOKENS".to_owned();
    assert_eq!(outcome, TurnOutcome::Stopped { reason });
    assert!(host.turn(Format::Anthropic, &json!(5)).await.is_err());
}

struct Greeter(Vec<Descriptor>);

impl Backend for Greeter {
    fn tools(&self) -> &[Descriptor] {
        &self.0
    }

    fn invoke(
        &self,
        call: Call,
        _: Grant,
        _: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        let name = call.input["name"].as_str().unwrap_or("you").to_owned();
        Box::pin(async move { Ok(Outcome::text(format!("hello {name}"))) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_the_program_itself_go_the_same_way() {
    let mut greet = Descriptor::new(ToolName::parse("greet").unwrap(), "Greets.");
    greet.input_schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    greet.annotations.pure = Some(true);
    let info = PluginInfo {
        name: PluginName::parse("own").unwrap(),
        version: "1.0.0".to_owned(),
        digest: None,
        timeout: None,
    };
    let host = builder()
        .backend(info, Arc::new(Greeter(vec![greet])))
        .build()
        .await
        .unwrap();
    let report = host.call("greet", json!({"name": "Ada"})).await;
    assert_eq!(text(&report), "hello Ada");
    let report = host.call("greet", json!({"name": 5})).await;
    assert!(text(&report).contains("name"), "{}", text(&report));
    assert_eq!(host.tools().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_settings_are_reported_immediately() {
    assert_eq!(builder().build().await.err(), Some(Error::NoPlugins));
    let wrong = |builder: Builder| async {
        let error = builder.build().await.err().expect("it makes no sense");
        assert!(matches!(error, Error::Settings(_)), "{error:?}");
        error.to_string()
    };
    let missing = files().allow_path("/no/such/folder", Access::ReadOnly);
    assert!(wrong(missing).await.contains("/no/such/folder"));
    let denies = || PolicySpec {
        rules: vec![RuleSpec::new(Decision::Deny, "read_file")],
        ..PolicySpec::default()
    };
    let without_effect = files().with_settings(|settings| {
        settings.policy = Arc::new(Policy::new(denies()).unwrap());
    });
    assert!(wrong(without_effect).await.contains("`Builder::policy`"));
    let host = files().policy(|spec| spec.rules = denies().rules).build();
    let host = host.await.unwrap();
    let report = host.call("read_file", json!({"path": "a"})).await;
    assert!(text(&report).starts_with("policy_violation"));
    let rule = files().rule(Decision::Allow, "write_file(");
    assert!(wrong(rule).await.contains("write_file("));
    let program = files().allow_program("bash");
    assert!(wrong(program).await.contains("launcher"));
    let host = builder().plugins(root().join("README.md")).build().await;
    let loaded = host.unwrap().loaded();
    assert_eq!((loaded.plugins.len(), loaded.broken.len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn r_062_r_070_r_071_the_library_lists_tools_by_status_category_and_display_name() {
    let host = files()
        .with_settings(|settings| {
            settings.disabled_tools.insert("delete_file".to_owned());
        })
        .build()
        .await
        .unwrap();
    let infos = host.tool_infos();
    let status = |name: &str| infos.iter().find(|info| info.name == name).unwrap().status;
    assert_eq!(
        (status("read_file"), status("delete_file")),
        ("enable", "disable")
    );
    let in_category = host.tools_in_category("file");
    assert!(
        in_category
            .iter()
            .any(|tool| tool.name.as_str() == "read_file")
    );
    assert!(
        in_category
            .iter()
            .all(|tool| tool.name.as_str() != "delete_file")
    );
    assert!(host.tools_in_category("network").is_empty());
    let by_display_name = host.tools_by_display_name();
    assert_eq!(by_display_name.len(), host.tools().len());
    host.shut_down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn r_148_the_library_keeps_the_actions_and_failures_of_a_task() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "hello\n").unwrap();
    let host = files()
        .allow_path(folder.path(), Access::ReadOnly)
        .build()
        .await
        .unwrap();
    let mut task = host.task_actions();
    assert_eq!(task.reflection(), None);
    for (tool, input) in [
        ("read_file", json!({"path": "/workspace/a.txt"})),
        (
            "move_file",
            json!({"from": "/workspace/a.txt", "to": "b.txt"}),
        ),
        ("nothing", json!({})),
    ] {
        let report = host.call(tool, input.clone()).await;
        task.append(tool, &input, &report);
    }
    let actions: Vec<_> = task.actions_done().collect();
    let succeeded: Vec<_> = actions.iter().map(|action| &action["success"]).collect();
    assert_eq!(succeeded, [true, false, false], "{actions:?}");
    assert_eq!(actions[0]["toolName"], "read_file");
    assert_eq!(actions[0]["result"]["content"], "hello\n");
    assert!(actions[0]["startedAt"].as_u64() <= actions[0]["completedAt"].as_u64());
    assert!(actions[1]["error"].as_str().unwrap().contains("denied"));
    let reflection = task.reflection().unwrap();
    assert_eq!(reflection["verdict"], "replan");
    let failures = reflection["toolFailures"].as_array().unwrap();
    let failed: Vec<_> = failures
        .iter()
        .map(|failure| &failure["toolName"])
        .collect();
    assert_eq!(failed, ["move_file", "nothing"]);
    assert!(
        failures
            .iter()
            .all(|failure| failure["suggestion"].is_string())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_of_a_running_host_are_added_and_removed_by_the_library() {
    let host = files().build().await.unwrap();
    let data = root().join("plugins/data.wasm");
    let added = host.add_plugin(&data).await.unwrap();
    assert_eq!((added.changes.len(), added.failed.len()), (1, 0));
    let encode = json!({"text": "hi"});
    let report = host.call("base64_encode", encode.clone()).await;
    assert!(report.result.is_ok(), "{}", text(&report));
    assert_eq!(host.loaded().plugins.len(), 2);
    // The same environment leaves every description as it is.
    let same = toolhost::environment::describe(Mode::default(), Profile::default());
    assert!(host.refresh_descriptions(same).await.changes.is_empty());
    host.remove_plugin("data").await.unwrap();
    assert!(host.call("base64_encode", encode).await.result.is_err());
    let unknown = host.remove_plugin("data").await.map(|_| ()).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "no plugin `data` is loaded; loaded plugins: files"
    );
    host.shut_down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_keeps_disabled_tools_and_a_failed_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    fs::create_dir(&plugins).unwrap();
    let file = plugins.join("data.wasm");
    let component = fs::read(root().join("plugins/data.wasm")).unwrap();
    fs::write(&file, &component).unwrap();
    let host = builder().plugins(&plugins).build().await.unwrap();
    host.kernel.set_enabled("base64_encode", false).unwrap();
    let decode = || host.call("base64_decode", json!({"encoded": "aGk="}));
    decode().await;
    let registry = host.kernel.registry();
    // An empty custom section changes the digest and no tool.
    fs::write(&file, [&component[..], b"\x00\x05\x04test"].concat()).unwrap();
    let replaced = host.reload_plugins(None).await.unwrap();
    assert_eq!((replaced.changes.len(), replaced.failed.len()), (1, 0));
    let call = host.call("base64_encode", json!({"text": "hi"})).await;
    assert!(text(&call).contains("disabled"), "{}", text(&call));
    let call = decode().await;
    assert!(call.result.is_ok(), "{}", text(&call));
    assert_eq!(host.stats().calls["base64_decode"].count, 2);
    assert!(!Arc::ptr_eq(&registry, &host.kernel.registry()));

    // A failed replacement leaves the registry as it is, so clients are not notified.
    let registry = host.kernel.registry();
    fs::write(&file, "not a component").unwrap();
    let failed = host.reload_plugins(Some("data")).await.unwrap();
    assert_eq!((failed.changes.len(), failed.failed.len()), (0, 1));
    assert_eq!(host.loaded().broken.len(), 1);
    assert!(Arc::ptr_eq(&registry, &host.kernel.registry()));
    fs::write(&file, &component).unwrap();
    host.reload_plugins(None).await.unwrap();
    assert!(host.loaded().broken.is_empty());
    fs::remove_file(&file).unwrap();
    let removed = host.reload_plugins(None).await.unwrap();
    assert_eq!(removed.changes.len(), 1);
    assert!(host.loaded().plugins.is_empty());
    host.shut_down().await.unwrap();
}

/// The program answers its open questions with events of another system.
#[tokio::test(flavor = "multi_thread")]
async fn a_front_end_of_another_system_answers_with_its_event() {
    let folder = tempfile::tempdir().unwrap();
    let unanswered = |_, _| std::future::pending();
    let host = files()
        .allow_path(folder.path(), Access::ReadWrite)
        .profile(Profile::Sema)
        .prompter(Arc::new(CallbackPrompter::new("a window", unanswered)))
        .build()
        .await
        .unwrap();
    let mut events = host.events();
    let mut front_end = host.front_end_events(FrontEnd::Sema);
    let front_end = async {
        loop {
            let event = events.next().await.unwrap();
            for event in front_end.convert(&event) {
                if event["type"] == "tool:permission:request" {
                    let input = &event["content"]["input"];
                    assert_eq!(event["toolName"], "Write");
                    assert_eq!(input["file_path"], "/workspace/a.txt", "{event}");
                    assert!(input.get("path").is_none(), "{event}");
                    let kind = "tool:permission:response";
                    let answer =
                        |tool: &str| json!({"type": kind, "toolName": tool, "selected": "agree"});
                    let wrong = host.answer_event(FrontEnd::Sema, &answer("Read"));
                    assert!(wrong.is_err());
                    let call = host.answer_event(FrontEnd::Sema, &answer("Write"));
                    assert_eq!(call.unwrap().0, event["toolId"].as_str().unwrap());
                    return;
                }
            }
        }
    };
    let input = json!({"path": "/workspace/a.txt", "content": "a\n"});
    let (report, ()) = tokio::join!(host.call("write_file", input), front_end);
    assert!(text(&report).contains("a.txt"), "{}", text(&report));
    assert_eq!(
        fs::read_to_string(folder.path().join("a.txt")).unwrap(),
        "a\n"
    );
}

//
#[tokio::test(flavor = "multi_thread")]
async fn r_233_a_profile_applies_to_the_lists_turns_and_events_of_the_library() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/a.txt"), "").unwrap();
    let host = files()
        .plugins(root().join("plugins/search.wasm"))
        .allow_path(folder.path(), Access::ReadOnly)
        .profile(Profile::Kode)
        .build()
        .await
        .unwrap();
    let listed = host.tools_for(Format::Anthropic);
    assert!(listed.tools.to_string().contains("fs_glob"));
    let mut events = host.events();
    let mut front_end = host.front_end_events(FrontEnd::Kode);
    let input = json!({"pattern": "*.txt", "cwd": "src"});
    let call = json!({"type": "tool_use", "id": "1", "name": "fs_glob", "input": input});
    let response = json!({"role": "assistant", "content": [call]});
    let outcome = host.turn(Format::Anthropic, &response).await.unwrap();
    assert!(
        matches!(outcome, TurnOutcome::Results(answer) if answer.to_string().contains("a.txt"))
    );
    let mut cards = Vec::new();
    while cards.len() < 2 {
        let event = events.next().await.unwrap();
        let converted = front_end.convert(&event);
        cards.extend(converted.iter().filter_map(|event| front_end.card(event)));
    }
    assert_eq!(cards[0]["name"], "fs_glob");
    assert_eq!(cards[0]["input"], input);
    assert_eq!(cards[1]["status"], "success", "{}", cards[1]);
    host.shut_down().await.unwrap();
}

/// An event answers only questions of the session that it comes from.
#[tokio::test(flavor = "multi_thread")]
async fn a_front_end_cannot_answer_the_questions_of_another_user_or_session() {
    let folder = tempfile::tempdir().unwrap();
    let unanswered = |_, _| std::future::pending();
    let host = files()
        .allow_path(folder.path(), Access::ReadWrite)
        .prompter(Arc::new(CallbackPrompter::new("a window", unanswered)))
        .build()
        .await
        .unwrap();
    let token = UserId::token("another");
    for key in [SessionKey::local("another"), SessionKey::new(token, "main")] {
        let id = CallId(format!("call of {}", key.user));
        let input = json!({"path": "/workspace/a.txt", "content": "a\n"});
        let caller = Principal::in_session(&key);
        let request = CallRequest::new(id.clone(), "write_file", input, caller);
        let kernel = Arc::clone(&host.kernel);
        let running = tokio::spawn(async move { kernel.call(request, Arc::new(NoSink)).await });
        while host.kernel.pending().is_empty() {
            tokio::task::yield_now().await;
        }
        let answer = json!({"type": "respond", "callId": id.0, "decision": "allow"});
        let answered = host.answer_event(FrontEnd::Kode, &answer);
        let error = answered.unwrap_err().to_string();
        assert!(error.contains("is not waiting for an answer"), "{error}");
        host.kernel.cancel(&id);
        assert!(running.await.unwrap().result.is_err());
    }
    assert!(!folder.path().join("a.txt").exists());
}
