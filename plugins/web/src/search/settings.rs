//! Configuration of the search service by environment variables. The key is not among them; the host adds it to
//! requests.

use toolhost_sdk::prelude::*;
use url::Url;

use super::provider::Provider;
use super::services::PROVIDERS;
use crate::untrusted_text::inline;
use crate::web_url;

pub const PROVIDER: &str = "TOOLHOST_WEB_SEARCH_PROVIDER";
pub const URL: &str = "TOOLHOST_WEB_SEARCH_URL";
pub const ENGINE: &str = "TOOLHOST_WEB_SEARCH_ENGINE";
pub const MAX_RESULTS: &str = "TOOLHOST_WEB_SEARCH_MAX_RESULTS";

/// Placeholder for the key in a request.
pub const KEY: &str = "secret:web_search";

pub struct Settings {
    pub provider: &'static Provider,
    /// URL of the service.
    pub url: Url,
    /// Google's search engine id.
    pub engine: String,
    pub max_results: u32,
}

impl Settings {
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let variable = |name: &str| {
            let value = variable(name)?;
            let value = value.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        let names = PROVIDERS.each_ref().map(|one| one.name).join(", ");
        let Some(name) = variable(PROVIDER) else {
            let message = format!("no search service is configured: `{PROVIDER}` is not set");
            return Err(not_configured(message)
                .recommend(format!(
                    "ask the operator to set `provider` in `[web_search]` (or the variable `{PROVIDER}`) to one of {names}; \
                     duckduckgo needs no key"
                ))
                .recommend("use web_fetch if you know a URL"));
        };
        let wanted = name.to_ascii_lowercase();
        let Some(provider) = PROVIDERS.iter().find(|one| one.name == wanted) else {
            let message = format!(
                "`{PROVIDER}` = `{}` is not a supported search service",
                inline(&name)
            );
            return Err(not_configured(message).recommend(format!("use one of {names}")));
        };
        let Some(url) = variable(URL).or_else(|| provider.url.map(str::to_owned)) else {
            let message = format!("{name} is self-hosted and `{URL}` is not set");
            return Err(not_configured(message).recommend(format!(
                "ask the operator to set the variable `{URL}`, for example to `https://searx.example.org`"
            )));
        };
        let url = web_url::parse(&url).map_err(|error| {
            not_configured(format!("`{URL}` cannot be used: {}", error.message()))
        })?;
        let engine = variable(ENGINE).unwrap_or_default();
        if provider.needs_engine && engine.is_empty() {
            let message = format!("{name} needs a search engine id, but `{ENGINE}` is not set");
            return Err(not_configured(message)
                .recommend(format!("ask the operator to set the variable `{ENGINE}`")));
        }
        let most = variable(MAX_RESULTS).unwrap_or_else(|| "10".to_owned());
        let Some(max_results) = most.parse().ok().filter(|&number: &u32| number > 0) else {
            let shown = inline(&most);
            let message = format!("`{MAX_RESULTS}` = `{shown}` is not a number from 1 to 20");
            return Err(not_configured(message));
        };
        Ok(Self {
            provider,
            url,
            engine,
            max_results: max_results.min(20),
        })
    }
}

pub fn not_configured(message: String) -> Error {
    Error::new(ErrorKind::Unavailable, message).code("not_configured")
}

/// The error for a host without a key for this service.
pub fn no_key(settings: &Settings, cause: &Error) -> Error {
    let name = settings.provider.name;
    let host = settings.url.host_str().unwrap_or_default();
    let variable = format!("{}_API_KEY", name.to_ascii_uppercase());
    not_configured(format!("{name} needs a key, but the host has none: {}", cause.message()))
        .recommend(format!(
            "ask the operator to put the key into a variable such as `{variable}` and to add `[secrets.web_search]` with \
             `env = \"{variable}\"` and `hosts = [\"{host}\"]` to the configuration"
        ))
        .recommend("duckduckgo and searxng need no key")
}
