//! Which search service is asked, and where: the operator's choice, by variables. The key is none of them; the host
//! puts it in on the way out.

use toolhost_sdk::prelude::*;
use url::Url;

use super::provider::Provider;
use super::{bing, brave, duckduckgo, google, searxng, tavily};
use crate::address;
use crate::wrap::inline;

pub const PROVIDER: &str = "TOOLHOST_WEB_SEARCH_PROVIDER";
pub const URL: &str = "TOOLHOST_WEB_SEARCH_URL";
pub const ENGINE: &str = "TOOLHOST_WEB_SEARCH_ENGINE";
pub const MAX_RESULTS: &str = "TOOLHOST_WEB_SEARCH_MAX_RESULTS";

/// What stands for the key in a request.
pub const KEY: &str = "secret:web_search";

pub struct Settings {
    pub provider: &'static dyn Provider,
    /// Where the service is.
    pub url: Url,
    /// Google's number of the search engine.
    pub engine: String,
    pub max_results: u32,
}

const PROVIDERS: [&dyn Provider; 6] = [
    &tavily::Tavily,
    &google::Google,
    &bing::Bing,
    &brave::Brave,
    &duckduckgo::DuckDuckGo,
    &searxng::Searxng,
];

impl Settings {
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let variable = |name: &str| {
            let value = variable(name)?;
            let value = value.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        let names = PROVIDERS.map(Provider::name).join(", ");
        let Some(name) = variable(PROVIDER) else {
            let message = format!("no search service is configured: `{PROVIDER}` is not set");
            return Err(not_configured(message)
                .recommend(format!(
                    "a person sets `provider` in `[web_search]` (or the variable `{PROVIDER}`) to one of {names}; \
                     duckduckgo needs no key"
                ))
                .recommend("use web_fetch if you know an address"));
        };
        let wanted = name.to_ascii_lowercase();
        let Some(provider) = PROVIDERS.into_iter().find(|one| one.name() == wanted) else {
            let message = format!("`{PROVIDER}` = `{}` is no search service", inline(&name));
            return Err(not_configured(message).recommend(format!("use one of {names}")));
        };
        let Some(url) = variable(URL).or_else(|| provider.url().map(str::to_owned)) else {
            let message = format!("{name} has no address of its own, and `{URL}` is not set");
            return Err(not_configured(message).recommend(format!(
                "a person sets the variable `{URL}`, for example to `https://searx.example.org`"
            )));
        };
        let url = address::parse(&url).map_err(|error| {
            not_configured(format!("`{URL}` cannot be used: {}", error.message()))
        })?;
        let engine = variable(ENGINE).unwrap_or_default();
        if provider.needs_engine() && engine.is_empty() {
            let message =
                format!("{name} needs the number of a search engine, and `{ENGINE}` is not set");
            return Err(
                not_configured(message).recommend(format!("a person sets the variable `{ENGINE}`"))
            );
        }
        let most = variable(MAX_RESULTS).unwrap_or_else(|| "10".to_owned());
        let Some(max_results) = most.parse().ok().filter(|&number: &u32| number > 0) else {
            let shown = inline(&most);
            let message = format!("`{MAX_RESULTS}` = `{shown}` is no number from 1 to 20");
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

/// For a host that has no key for this service, or none that it may get.
pub fn no_key(settings: &Settings, cause: &Error) -> Error {
    let name = settings.provider.name();
    let host = settings.url.host_str().unwrap_or_default();
    let variable = format!("{}_API_KEY", name.to_ascii_uppercase());
    not_configured(format!("{name} needs a key, and the host has none to send: {}", cause.message()))
        .recommend(format!(
            "a person puts the key into a variable such as `{variable}` and adds `[secrets.web_search]` with \
             `env = \"{variable}\"` and `hosts = [\"{host}\"]` to the configuration"
        ))
        .recommend("duckduckgo and searxng need no key")
}
