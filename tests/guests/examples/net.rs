//! Tools that send a request to a configured target, independent of their input's `url`.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::Request;

/// Sends a read-only request.
#[tool(reads, network, kind = "fetch", requires = ["net"])]
fn net(
    cx: &Context,
    /// The declared target.
    url: Option<String>,
    /// The actual target; default `url`.
    to: Option<String>,
    /// Default `GET`.
    method: Option<String>,
    /// The value of the header `x-key`.
    key: Option<String>,
) -> String {
    fetch(cx, url, to, method, key)
}

/// Sends a request with side effects.
#[tool(destroys, network, kind = "fetch", requires = ["net"])]
fn net_send(
    cx: &Context,
    /// The declared target.
    url: Option<String>,
    /// The actual target; default `url`.
    to: Option<String>,
    /// Default `GET`.
    method: Option<String>,
    /// The value of the header `x-key`.
    key: Option<String>,
) -> String {
    fetch(cx, url, to, method, key)
}

/// Declares that it needs only files.
#[tool(reads, requires = ["fs.read"])]
fn net_not(
    cx: &Context,
    /// The target.
    to: String,
) -> String {
    fetch(cx, None, Some(to), None, None)
}

/// Writes a file and fails; it may use the network.
#[tool(writes, network, requires = ["net", "fs.write"])]
fn net_write(
    /// The file.
    path: String,
) -> Result<String> {
    write_and_fail(&path)
}

/// Writes a file and fails.
#[tool(writes, requires = ["fs.write"])]
fn file_write(
    /// The file.
    path: String,
) -> Result<String> {
    write_and_fail(&path)
}

fn write_and_fail(path: &str) -> Result<String> {
    std::fs::write(path, "written")?;
    Err(Error::failed("a test"))
}

fn fetch(
    cx: &Context,
    url: Option<String>,
    to: Option<String>,
    method: Option<String>,
    key: Option<String>,
) -> String {
    let method = method.unwrap_or_else(|| "GET".to_owned());
    let mut request = Request::new(method, to.or(url).unwrap_or_default());
    if let Some(key) = key {
        request = request.header("x-key", key);
    }
    match cx.fetch(&request) {
        Ok(answer) => format!(
            "{} {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        ),
        Err(error) => format!("! {}", error.code.unwrap_or(error.message)),
    }
}

export_tools![net, net_send, net_not, net_write, file_write];
