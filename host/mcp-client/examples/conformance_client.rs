//! Runs this crate's client against a scenario of the official conformance suite: connects to the URL in the last
//! argument, lists the tools, and calls those that the scenario requires. Exits with 0 if nothing failed.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolhost_contract::policy::{HookDecisions, PolicyRequest};
use toolhost_contract::{
    Backend as _, Call, Descriptor, Digest, Mode, NoSink, Policy, PolicySpec, Subject, ToolName,
    UserAnswer, Verdict,
};
use toolhost_mcp_client::{
    Approvals, HiddenValue, HttpDialer, ListingChecks, LoginPage, LoginStore, Server,
    ServerAddress, ServerConfig, ServerContext, ServerError, ServerTools, TransportConfig,
    plugin_name, tool_name,
};

const PATIENCE: Duration = Duration::from_secs(25);
const NAME: &str = "suite";
/// The URL of the client metadata document in the suite.
const METADATA: &str = "https://conformance-test.local/client-metadata.json";
/// A client that is refused repeatedly must give up.
const LOGINS: usize = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().next_back() else {
        return ExitCode::FAILURE;
    };
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    match tokio::time::timeout(PATIENCE, run(&url, &scenario)).await {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("{scenario}: {error}");
            ExitCode::FAILURE
        }
        Err(_) => {
            eprintln!("{scenario}: not done within {} s", PATIENCE.as_secs());
            ExitCode::FAILURE
        }
    }
}

async fn run(url: &str, scenario: &str) -> Result<(), String> {
    let mut address = ServerAddress::parse(NAME, url, BTreeMap::new(), true).map_err(message)?;
    let context = context();
    address.oauth.client_id = context["client_id"].as_str().map(str::to_owned);
    let secret = context["client_secret"].as_str();
    address.oauth.client_secret = secret.map(|secret| HiddenValue(secret.to_owned()));
    address.oauth.client_metadata_url = Some(METADATA.to_owned());
    let folder = std::env::temp_dir().join(format!("toolhost-conformance-{}", std::process::id()));
    let logins = Arc::new(LoginStore::in_folder(folder.clone()));
    let mut outcome = session(&address, &logins, scenario).await;
    for _ in 0..LOGINS {
        let Err(ServerError::LoginRequired { challenge, .. }) = outcome else {
            break;
        };
        outcome = match logins.login(NAME, &address, challenge, open).await {
            Ok(()) => session(&address, &logins, scenario).await,
            Err(error) => Err(error),
        };
    }
    // The stored data belongs to this scenario only.
    let _ = std::fs::remove_dir_all(folder);
    outcome.map_err(message)
}

/// The suite's parameters for its client.
fn context() -> Value {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    serde_json::from_str(&context).unwrap_or_default()
}

fn message(error: ServerError) -> String {
    error.to_string()
}

/// The browser of a user who accepts everything.
fn open(page: &LoginPage<'_>) {
    let url = page.url.to_owned();
    tokio::spawn(async move {
        let _ = reqwest::get(url).await;
    });
}

async fn session(
    address: &ServerAddress,
    logins: &Arc<LoginStore>,
    scenario: &str,
) -> Result<(), ServerError> {
    let config = ServerConfig {
        name: NAME.to_owned(),
        transport: TransportConfig::Http(address.clone()),
        include: Vec::new(),
        exclude: Vec::new(),
        timeout: PATIENCE,
        is_trusted: false,
    };
    let dial = Box::new(HttpDialer {
        server: NAME.to_owned(),
        address: address.clone(),
        logins: Some(Arc::clone(logins)),
    });
    let approvals = Approvals::in_memory();
    approvals
        .approve(NAME, config.digest(), &BTreeSet::new())
        .expect("the in-memory store accepts it");
    let context = ServerContext {
        checks: ListingChecks {
            accept: Arc::new(|_: &Descriptor| Ok(())),
            approvals: Arc::new(approvals),
        },
        log: Arc::new(|line: &str| eprintln!("server: {line}")),
        // A user who accepts the defaults.
        ask: Some(Arc::new(|queries| {
            let replies = queries.iter().map(|query| match query.kind {
                toolhost_contract::UserQuestionKind::YesNo => UserAnswer::YesNo(true),
                _ => UserAnswer::Text(String::new()),
            });
            let replies = replies.collect();
            Box::pin(async move { Ok(replies) })
        })),
        on_event: Box::new(|_, _| ()),
    };
    let server = Server::start(config, dial, context);
    let listing = server.shared().first_listing().await?;
    let tools = ServerTools::new(server.shared(), &listing);
    if scenario == "sse-retry" {
        // The suite counts streams, and treats the permanent one as a second one if it is late.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let mut failed = None;
    if scenario != "initialize" && scenario != "json-schema-ref-no-deref" {
        for (tool, input) in wanted(&tools) {
            if let Err(error) = call(&tools, &tool, input).await {
                eprintln!("{tool}: {error}");
                if error.code == "mcp_auth_required" {
                    failed = Some(ServerError::LoginRequired {
                        server: NAME.to_owned(),
                        challenge: error.cause,
                    });
                }
            }
        }
    }
    server.stop().await;
    failed.map_or(Ok(()), Err)
}

/// The calls that the suite requests, or every tool with a matching input.
fn wanted(tools: &ServerTools) -> Vec<(ToolName, Value)> {
    let context = context();
    if let Some(calls) = context["toolCalls"].as_array() {
        let request = |call: &Value| {
            let name = tool_name(NAME, call["name"].as_str()?);
            Some((name, call["arguments"].clone()))
        };
        return calls.iter().filter_map(request).collect();
    }
    tools
        .tools()
        .iter()
        .map(|tool| (tool.name.clone(), fitting(&tool.input_schema)))
        .collect()
}

fn fitting(schema: &Value) -> Value {
    let mut input = Map::new();
    for name in schema["required"].as_array().into_iter().flatten() {
        let Some(name) = name.as_str() else { continue };
        let value = match schema["properties"][name]["type"].as_str() {
            Some("number" | "integer") => json!(1),
            Some("string") => json!("test"),
            Some("boolean") => json!(true),
            _ => Value::Null,
        };
        input.insert(name.to_owned(), value);
    }
    Value::Object(input)
}

/// Authorized by a policy that allows everything, because a call requires a grant.
async fn call(
    tools: &ServerTools,
    name: &ToolName,
    input: Value,
) -> Result<(), toolhost_contract::CallError> {
    let tool = tools.tools().iter().find(|tool| tool.name == *name);
    let Some(tool) = tool else { return Ok(()) };
    let policy = Policy::new(PolicySpec {
        mode: Mode::Yolo,
        ..PolicySpec::default()
    })
    .expect("a policy without rules");
    let input = if input.is_null() { json!({}) } else { input };
    let call = Call::new("conformance", name.clone(), input);
    let verdict = policy.decide(
        PolicyRequest {
            plugin: &plugin_name(NAME),
            name,
            tool,
            aliases: &[],
            runs_commands: false,
            shell: None,
            variables: &toolhost_contract::variables::NO_VARIABLES,
            background_job: None,
            delegates: false,
            digest: Some(&Digest([0; 32])),
            definition: None,
            input: &call.input,
            subject: &Subject::default(),
            timeout: PATIENCE,
            caller: &call.caller,
            mode: None,
            restriction: None,
            is_tail_call: false,
            effects_known: false,
        },
        &HookDecisions::default(),
        &[],
        0,
    );
    let Verdict::Allow(grant) = verdict else {
        panic!("the policy allows everything");
    };
    tools.invoke(call, grant, Arc::new(NoSink)).await.map(drop)
}
