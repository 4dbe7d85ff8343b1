//! `host inspect`: shows the manifest, imports, exports and tools of a plugin file.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use toolhost::HostPaths;
use toolhost_contract::units::{format_duration, format_size};
use toolhost_contract::{Descriptor, text};
use toolhost_runtime::Loaded;

use crate::exit::{CliError, Exit, OrExit};
use crate::load::runtime;
use crate::terminal::print;
use crate::terminal::style::{Paint, Style, terminal_width};
use crate::{json, tool_description};

#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Plugin file
    #[arg(value_name = "FILE.wasm", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn inspect(args: InspectArgs) -> Result<Exit, CliError> {
    let cache = HostPaths::from_env(|name| std::env::var(name).ok()).cache;
    let loaded = runtime(cache, 1)?
        .load(&args.file)
        .await
        .or_exit(Exit::NoPlugin)?;
    let shown = if args.json {
        json::pretty(&to_json(&loaded)).or_exit(Exit::Internal)?
    } else {
        format_plugin(&loaded, Style::of(&std::io::stdout()))
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn to_json(loaded: &Loaded) -> Value {
    let manifest = loaded.manifest();
    let skipped = loaded.skipped_functions();
    json::without_nulls(json!({
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "license": manifest.license,
        "homepage": manifest.homepage,
        "file": loaded.path(),
        "size": loaded.size(),
        "digest": loaded.digest().to_string(),
        "needs": json::needs(manifest),
        "limits": json::without_nulls(json!({
            "memory": manifest.limits.memory,
            "output": manifest.limits.output,
            "stdout": manifest.limits.stdout,
            "timeout_ms": manifest.limits.timeout.map(|timeout| timeout.as_secs_f64() * 1e3),
        })),
        "imports": loaded.imports(),
        "exports": loaded.exports(),
        "tools": loaded.tools().iter().map(json::tool).collect::<Vec<_>>(),
        "skipped_functions": (!skipped.is_empty()).then_some(skipped),
    }))
}

fn format_plugin(loaded: &Loaded, style: Style) -> String {
    let manifest = loaded.manifest();
    let title = format!(
        "{} {}",
        manifest.name,
        text::escape_line(&manifest.version, 64)
    );
    let mut lines = vec![style.paint(Paint::Bold, &title)];
    if !manifest.description.is_empty() {
        lines.push(text::escape_line(&manifest.description, 500));
    }
    let mut field = |label: &str, value: String| lines.push(format!("  {label:<8} {value}"));
    field(
        "file",
        text::escape_line(&loaded.path().to_string_lossy(), 500),
    );
    field("size", format_size(loaded.size()));
    field("digest", loaded.digest().to_string());
    for (label, value) in [
        ("license", &manifest.license),
        ("homepage", &manifest.homepage),
    ] {
        if let Some(value) = value {
            field(label, text::escape_line(value, 200));
        }
    }
    let requests = [
        manifest
            .limits
            .memory
            .map(|size| format!("memory {}", format_size(size))),
        manifest
            .limits
            .output
            .map(|size| format!("output {}", format_size(size))),
        manifest
            .limits
            .stdout
            .map(|size| format!("stdout {}", format_size(size))),
        manifest
            .limits
            .timeout
            .map(|time| format!("timeout {}", format_duration(time))),
    ];
    let requests: Vec<String> = requests.into_iter().flatten().collect();
    if !requests.is_empty() {
        field("limits", requests.join(", "));
    }
    lines.push(style.paint(Paint::Bold, "needs"));
    for need in &manifest.needs {
        let names = if need.names.is_empty() {
            String::new()
        } else {
            format!(" {}", need.names.join(", "))
        };
        lines.push(format!(
            "  {}{names}: {}",
            need.capability.as_str(),
            text::escape_line(&need.why, 300)
        ));
    }
    if manifest.needs.is_empty() {
        lines.push("  nothing".to_owned());
    }
    for (label, names) in [("imports", loaded.imports()), ("exports", loaded.exports())] {
        lines.push(style.paint(Paint::Bold, label));
        lines.extend(
            names
                .iter()
                .map(|name| format!("  {}", text::escape_line(name, 200))),
        );
        if names.is_empty() {
            lines.push("  nothing".to_owned());
        }
    }
    lines.push(style.paint(Paint::Bold, "tools"));
    lines.extend(loaded.tools().iter().map(|tool| tool_lines(tool, style)));
    lines.extend(skipped_lines(loaded, style));
    lines.join("\n")
}

fn skipped_lines(loaded: &Loaded, style: Style) -> Vec<String> {
    let skipped = loaded.skipped_functions().iter();
    let mut lines: Vec<String> = skipped
        .map(|function| format!("  {}: {}", function.id, function.reason))
        .collect();
    if !lines.is_empty() {
        lines.insert(0, style.paint(Paint::Bold, "functions that are not tools"));
    }
    lines
}

fn tool_lines(tool: &Descriptor, style: Style) -> String {
    let width = terminal_width().map(|width| width.saturating_sub(2));
    let shown = tool_description::describe_tool(tool.name.as_str(), tool, style, width);
    shown
        .lines()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
