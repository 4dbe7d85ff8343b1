//! A small agent for Gemini's `generateContent` API that embeds the host as a library.
//!
//! ```console
//! $ BASE_URL=http://127.0.0.1:8080 cargo run -p agent-loop -- "What is in notes.txt?" ./plugins .
//! ```

use std::env;

use anyhow::{Context as _, Result, bail, ensure};
use toolhost::{Access, Builder, Format, TurnOutcome, Value, json};

const MAX_TURNS: usize = 50;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let task = arguments.next().context("missing argument: the task")?;
    let plugins = arguments
        .next()
        .context("missing argument: the plugin directory")?;
    let folder = arguments
        .next()
        .context("missing argument: the workspace directory")?;
    let host = Builder::new()
        .plugins(plugins)
        .allow_path(folder, Access::ReadOnly)
        .build()
        .await?;
    let tools = host.tools_for(Format::Gemini).tools;
    let mut contents = vec![json!({"role": "user", "parts": [{"text": task}]})];
    for _ in 0..MAX_TURNS {
        let response = ask(json!({"contents": contents, "tools": tools}))?;
        let message = &response["candidates"][0]["content"];
        for part in message["parts"].as_array().into_iter().flatten() {
            if let Some(text) = part["text"].as_str() {
                println!("{text}");
            }
        }
        match host.turn(Format::Gemini, &response).await? {
            TurnOutcome::Results(results) => contents.extend([message.clone(), results]),
            TurnOutcome::Done => break,
            TurnOutcome::Stopped { reason } => bail!("the model stopped with `{reason}`"),
        }
    }
    Ok(host.shut_down().await?)
}

fn ask(request: Value) -> Result<Value> {
    let base = env::var("BASE_URL").context("set BASE_URL to the URL of the model's API")?;
    let turn_on = "for https:// enable the feature `rustls` of `ureq` in Cargo.toml";
    ensure!(base.starts_with("http://"), "BASE_URL={base}: {turn_on}");
    let model = env::var("MODEL").unwrap_or_else(|_| "gemini-2.5-pro".to_owned());
    let key = env::var("API_KEY").unwrap_or_default();
    let mut response = ureq::post(format!("{base}/v1beta/models/{model}:generateContent"))
        .config()
        .http_status_as_error(false)
        .build()
        .header("x-goog-api-key", &key)
        .header("content-type", "application/json")
        .send(request.to_string())?;
    let (status, body) = (response.status(), response.body_mut().read_to_string()?);
    ensure!(status == 200, "the model's API answers {status}: {body}");
    Ok(serde_json::from_str(&body)?)
}
