//! Plugins and servers: needs and grants in words, use against limits, errors, logs, and turning them off.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Redirect;
use http::StatusCode;
use maud::{Markup, html};
use toolhost_contract::PluginName;
use toolhost_contract::units::{format_duration, format_size};
use toolhost_kernel::records::{CallSummary, Usage};
use toolhost_kernel::{Kernel, RegistrySnapshot};

use crate::access::Session;
use crate::charts::meter;
use crate::error_page::ErrorPage;
use crate::form::{CheckedForm, form};
use crate::guest_text::line;
use crate::history::Coverage;
use crate::host_view::{PluginKind, PluginView};
use crate::layout::{self, NavPage};
use crate::links::link;
use crate::pages::policy::{coverage_note, explain_link};
use crate::pages::timeline::count_of;
use crate::state::AppState;
use crate::{log_view, record_pages};

/// Maximum number of shown plugins, tools of a plugin, error classes and log lines.
const MAX_PLUGINS: usize = 300;
const MAX_TOOLS: usize = 200;
const MAX_ERRORS: usize = 20;
const MAX_LINES: usize = 100;
/// Maximum length of shown texts, in characters.
const MAX_FACT: usize = 600;
const PERCENT: u32 = 95;

pub async fn plugins(
    State(state): State<Arc<AppState>>,
    session: Session,
) -> Result<Markup, ErrorPage> {
    record_pages::blocking(move || {
        let content = match (&state.options.kernel, &state.options.view) {
            (Some(kernel), Some(view)) => {
                let coverage = state
                    .history
                    .update()
                    .map_err(|error| record_pages::unreadable(&error))?;
                let page = PluginsPage {
                    state: &state,
                    session: &session,
                    registry: kernel.registry(),
                    usage: usage(&state),
                };
                page.render(&view.plugins(), coverage)
            }
            _ => record_pages::no_host("Plugins and servers are those of a running host."),
        };
        Ok(layout::page(
            &state,
            NavPage::Plugins,
            "Plugins and servers",
            content,
        ))
    })
    .await
}

/// The use of each tool, by plugin and tool.
type UsageByTool = HashMap<(Arc<str>, Arc<str>), Usage>;

fn usage(state: &AppState) -> UsageByTool {
    let Some(records) = &state.history.records else {
        return UsageByTool::new();
    };
    records.log.read(|calls, _| {
        let mut by_tool: HashMap<(Arc<str>, Arc<str>), Vec<&CallSummary>> = HashMap::new();
        for call in calls {
            let key = (Arc::clone(&call.plugin), Arc::clone(&call.tool));
            by_tool.entry(key).or_default().push(call);
        }
        by_tool
            .into_iter()
            .map(|(key, calls)| (key, Usage::of(calls)))
            .collect()
    })
}

struct PluginsPage<'a> {
    state: &'a AppState,
    session: &'a Session,
    registry: Arc<RegistrySnapshot>,
    usage: UsageByTool,
}

impl PluginsPage<'_> {
    fn render(&self, plugins: &[PluginView], coverage: Coverage) -> Markup {
        let count = |kind| plugins.iter().filter(|plugin| plugin.kind == kind).count();
        html! {
            div class="page-head" {
                h1 { "Plugins and servers" }
                p class="meta" {
                    (count_of(count(PluginKind::Plugin), "plugin")) ", " (count_of(count(PluginKind::Server), "server"))
                    @match count(PluginKind::Broken) { 0 => {}, broken => { ", " span class="bad-text" { (broken) " not loaded" } } }
                }
                (coverage_note(coverage))
            }
            @if plugins.is_empty() { section class="empty" { h2 { "No plugins" } p { "Start the host with " code { "--plugins DIRECTORY" } "." } } }
            @for plugin in plugins.iter().take(MAX_PLUGINS) { (self.plugin(plugin)) }
            @if plugins.len() > MAX_PLUGINS { p class="note" { (plugins.len() - MAX_PLUGINS) " more" } }
        }
    }

    fn plugin(&self, plugin: &PluginView) -> Markup {
        let enabled = plugin
            .tools
            .iter()
            .filter(|tool| self.is_enabled(tool.as_str()))
            .count();
        html! {
            section class="card" {
                header {
                    h2 { (line(&plugin.name, 100)) " " span class="meta" { (line(&plugin.version, 60)) } }
                    @match plugin.kind {
                        PluginKind::Plugin => {},
                        PluginKind::Server => { span class="tag" { "MCP server" } },
                        PluginKind::Broken => { span class="outcome failed" { "Not loaded" } },
                    }
                    @if enabled == 0 && !plugin.tools.is_empty() { span class="outcome denied" { "Off" } }
                }
                @if !plugin.description.is_empty() { p { (line(&plugin.description, MAX_FACT)) } }
                @if let Some(problem) = &plugin.problem { p class="warning-text" { (line(problem, MAX_FACT)) } }
                @if plugin.kind != PluginKind::Broken { (Self::access(plugin)) }
                (Self::origin(plugin))
                (self.tools(plugin))
                (self.log(plugin))
                (self.switch(plugin, enabled))
            }
        }
    }

    fn access(plugin: &PluginView) -> Markup {
        html! {
            div class="columns" {
                div {
                    h3 { "Asks to" }
                    @if plugin.needs.is_empty() { p class="meta" { "nothing: it only computes" } }
                    ul {
                        @for need in &plugin.needs {
                            li { (line(&need.what, MAX_FACT)) @if !need.why.is_empty() { " " span class="meta" { "“" (line(&need.why, MAX_FACT)) "”" } } }
                        }
                    }
                }
                div {
                    h3 { "May" }
                    @if plugin.grants.is_empty() { p class="meta" { "nothing beyond computing" } }
                    ul { @for grant in &plugin.grants { li { (line(grant, MAX_FACT)) } } }
                }
            }
        }
    }

    fn origin(plugin: &PluginView) -> Markup {
        html! {
            details {
                summary { "Origin and limits" }
                dl class="facts" {
                    @if !plugin.source.is_empty() { div { dt { "from" } dd { (line(&plugin.source, MAX_FACT)) } } }
                    @if !plugin.signature.is_empty() { div { dt { "signature" } dd { (line(&plugin.signature, MAX_FACT)) } } }
                    @if let Some(digest) = &plugin.digest { div { dt { "digest" } dd { (line(digest, 100)) } } }
                    @if let Some(size) = plugin.size { div { dt { "size" } dd { (format_size(size)) } } }
                    @if let Some(limits) = plugin.limits {
                        div { dt { "memory" } dd { "at most " (format_size(limits.memory)) " per call" } }
                        div { dt { "result" } dd { "at most " (format_size(limits.output)) } }
                        @if let Some(timeout) = limits.timeout { div { dt { "time" } dd { "at most " (format_duration(timeout)) } } }
                    }
                }
            }
        }
    }

    fn tools(&self, plugin: &PluginView) -> Markup {
        html! {
            @if !plugin.tools.is_empty() {
                div class="table-scroll" tabindex="0" role="region" aria-label=(format!("Tools of {}", toolhost_contract::text::escape_line(&plugin.name, 100))) {
                    table class="calls" {
                        thead { tr {
                            th scope="col" { "Tool" } th scope="col" { "Calls" } th scope="col" { "Time, p95" }
                            th scope="col" { "Memory, p95" } th scope="col" { "Result, p95" } th scope="col" { "Errors by class" }
                        } }
                        tbody { @for tool in plugin.tools.iter().take(MAX_TOOLS) { (self.tool(plugin, tool.as_str())) } }
                    }
                }
                @if plugin.tools.len() > MAX_TOOLS { p class="note" { (plugin.tools.len() - MAX_TOOLS) " more tools" } }
            }
        }
    }

    fn tool(&self, plugin: &PluginView, name: &str) -> Markup {
        let key = (Arc::from(plugin.name.as_str()), Arc::from(name));
        let usage = self.usage.get(&key);
        let none = html! { span class="meta" { "–" } };
        let against = |used: Option<u64>, limit: Option<u64>| match (used, limit) {
            (Some(used), Some(limit)) => {
                html! { (format_size(used)) " " span class="meta" { "of " (format_size(limit)) } " " (meter(ratio(used), ratio(limit))) }
            }
            (Some(used), None) => html! { (format_size(used)) },
            (None, _) => none.clone(),
        };
        let limits = plugin.limits;
        html! {
            tr {
                th scope="row" {
                    a href=(link("/timeline", [("tool", name)])) { (line(name, 80)) }
                    @if !self.is_enabled(name) { " " span class="meta" { "off" } }
                    " " a class="meta" href=(explain_link(name)) { "explain" }
                }
                @match usage {
                    None => td colspan="5" class="meta" { "not called" },
                    Some(usage) => {
                        td class="number" data-label="calls" { (usage.calls) @if usage.failures > 0 { ", " span class="bad-text" { (usage.failures) " failed" } } }
                        td class="number" data-label="time, p95" {
                            @match usage.duration(PERCENT) {
                                Some(took) => {
                                    (format_duration(took))
                                    @if let Some(limit) = limits.and_then(|limits| limits.timeout) {
                                        " " span class="meta" { "of " (format_duration(limit)) } " " (meter(took.as_secs_f64(), limit.as_secs_f64()))
                                    }
                                },
                                None => (none),
                            }
                        }
                        td class="number" data-label="memory, p95" { (against(usage.memory(PERCENT), limits.map(|limits| limits.memory))) }
                        td class="number" data-label="result, p95" { (against(usage.output(PERCENT), limits.map(|limits| limits.output))) }
                        td data-label="errors" {
                            @if usage.errors.is_empty() { (none) }
                            @for (class, count) in usage.errors.iter().take(MAX_ERRORS) {
                                a class="error-class" href=(link("/timeline", [("tool", name), ("q", class.as_ref())])) { (line(class, 60)) " " (count) } " "
                            }
                        }
                    },
                }
            }
        }
    }

    fn log(&self, plugin: &PluginView) -> Markup {
        let lines = self
            .state
            .history
            .live
            .lines(MAX_LINES, |line| line.plugin == plugin.name);
        html! {
            @if !lines.is_empty() || !plugin.log.is_empty() {
                details {
                    summary { "Log" }
                    p class="meta" { "Output and messages since the host started. They are not recorded." }
                    (log_view::lines(&lines))
                    @if !plugin.log.is_empty() {
                        div class="log" tabindex="0" role="log" aria-label="Log of the server" { @for text in &plugin.log { p { (line(text, 500)) } } }
                    }
                }
            }
        }
    }

    /// The form that turns the tools of a plugin off and on again.
    fn switch(&self, plugin: &PluginView, enabled: usize) -> Markup {
        let is_turned_off =
            PluginName::parse(&plugin.name).is_ok_and(|name| self.registry.is_turned_off(&name));
        if plugin.tools.is_empty() && !is_turned_off {
            return html! {};
        }
        let field = html! { input type="hidden" name="plugin" value=(plugin.name); };
        html! {
            div class="actions" {
                @if enabled > 0 {
                    (form(self.state, self.session, "/plugins/disable", "inline", html! {
                        (field) button class="danger" { "Turn off until the host exits" }
                    }))
                }
                @if is_turned_off {
                    (form(self.state, self.session, "/plugins/enable", "inline", html! { (field) button { "Turn on again" } }))
                } @else if enabled == 0 {
                    p class="meta" { "Turned off by the configuration of the host." }
                }
            }
        }
    }

    fn is_enabled(&self, tool: &str) -> bool {
        self.registry.get(tool).is_some_and(|entry| entry.enabled)
    }
}

pub async fn disable(
    State(state): State<Arc<AppState>>,
    form: CheckedForm,
) -> Result<Redirect, ErrorPage> {
    let (kernel, plugin) = plugin_of(&state, &form)?;
    kernel.turn_off_plugin(&plugin);
    Ok(Redirect::to("/plugins"))
}

/// Turns on only what a page has turned off: the configuration of the host stays in force.
pub async fn enable(
    State(state): State<Arc<AppState>>,
    form: CheckedForm,
) -> Result<Redirect, ErrorPage> {
    let (kernel, plugin) = plugin_of(&state, &form)?;
    kernel.turn_on_plugin(&plugin);
    Ok(Redirect::to("/plugins"))
}

fn plugin_of(state: &AppState, form: &CheckedForm) -> Result<(Arc<Kernel>, PluginName), ErrorPage> {
    let name = form.text("plugin").unwrap_or_default();
    let (Some(kernel), Some(view)) = (&state.options.kernel, &state.options.view) else {
        return Err(
            ErrorPage::new(StatusCode::CONFLICT, "No host is running").link("/plugins", "Go back")
        );
    };
    let plugins = view.plugins();
    let mut loaded = plugins
        .iter()
        .filter(|plugin| plugin.kind != PluginKind::Broken);
    let plugin = loaded
        .find(|plugin| plugin.name == name)
        .and_then(|plugin| PluginName::parse(&plugin.name).ok());
    let plugin = plugin.ok_or_else(|| {
        ErrorPage::new(StatusCode::NOT_FOUND, "This plugin is not loaded any more")
            .because("Nothing was changed.")
            .link("/plugins", "Show the loaded plugins")
    })?;
    Ok((Arc::clone(kernel), plugin))
}

#[expect(clippy::cast_precision_loss, reason = "a share of a limit")]
fn ratio(bytes: u64) -> f64 {
    bytes as f64
}
