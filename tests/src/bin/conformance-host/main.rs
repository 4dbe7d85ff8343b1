//! `conformance-host PLUGIN TOOL`: serves a component over HTTP like `host run --http --ask-client`, with the fixtures
//! that the official conformance suite expects. `TOOL` is allowed without a question.

mod fixtures;

use std::future::pending;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use toolhost::{Builder, CommandAgents, Decision, Launcher, Settings};
use toolhost_formats::profile::{Profile, UnmappedTools};
use toolhost_mcp_server::http::{Exposure, HttpLimits, HttpOptions, HttpServer};
use toolhost_mcp_server::{ClientAgents, ClientRequestSettings, ElicitationPrompter, ServeOptions};

use fixtures::WithFixtures;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [role, name] if role == "process-launcher" => toolhost::become_program([name.into()]),
        [plugin, tool] => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            match runtime.block_on(serve(plugin, tool)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("error: {error:#}");
                    ExitCode::FAILURE
                }
            }
        }
        _ => {
            eprintln!("usage: conformance-host PLUGIN TOOL");
            ExitCode::from(2)
        }
    }
}

async fn serve(plugin: &str, tool: &str) -> Result<()> {
    let asks = ClientRequestSettings {
        questions: true,
        sampling: true,
    };
    let prompter = Arc::new(ElicitationPrompter::new(asks, None)?);
    let launcher = Launcher::this_program(["process-launcher".into()]);
    let commands = Arc::new(CommandAgents::new(
        &Settings::default(),
        Some(launcher.clone()),
    ));
    let host = Builder::new()
        .plugins(plugin)
        .launcher(launcher)
        .rule(Decision::Allow, tool)
        .prompter(Arc::clone(&prompter) as _)
        .agents(Arc::new(ClientAgents::new(Arc::clone(&prompter), commands)))
        // As in the host: a client that does not answer must not block questions to others.
        .with_settings(|settings| settings.pools.interactive = 64)
        .on_message(Arc::new(|message| eprintln!("{message}")))
        .build()
        .await
        .context("load the component")?;
    let options = HttpOptions {
        tokens: None,
        exposure: Exposure::Loopback,
        hosts: Vec::new(),
        origins: Vec::new(),
        limits: HttpLimits::default(),
    };
    let server = HttpServer::bind(([127, 0, 0, 1], 0).into(), options).await?;
    eprintln!("listening on {}", server.url());
    let info = ServeOptions {
        name: "toolhost".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: None,
        profile: Profile::Native,
        others: UnmappedTools::default(),
        prompter: Some(prompter),
        roots: false,
        own_folders: Arc::default(),
        structured: false,
        readiness: None,
        tasks_after: None,
    };
    let kernel = Arc::clone(&host.kernel);
    server
        .serve_with(kernel, info, pending(), pending(), WithFixtures::new)
        .await?;
    Ok(())
}
