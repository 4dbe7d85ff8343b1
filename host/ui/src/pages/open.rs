//! The page behind the link that the host prints: exchanges its token for a cookie.
//!
//! The exchange is a request of its own, because programs that preview links only load them.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use http::header::SET_COOKIE;
use maud::{Markup, html};
use serde::Deserialize;

use crate::error_page::ErrorPage;
use crate::layout;
use crate::state::AppState;

#[derive(Deserialize)]
pub struct OpenQuery {
    #[serde(default)]
    token: String,
}

pub async fn ask(Query(query): Query<OpenQuery>) -> Markup {
    let content = html! {
        section class="notice" {
            h1 { "Open the page of this host" }
            p { "This browser can then see the calls of the host and answer its questions." }
            form method="post" action="/open" data-submit-at-once {
                input type="hidden" name="token" value=(query.token);
                button class="primary" { "Open" }
            }
        }
    };
    layout::bare_page("Open", content)
}

pub async fn open(State(state): State<Arc<AppState>>, body: Bytes) -> Result<Response, ErrorPage> {
    let mut fields = form_urlencoded::parse(&body);
    let token = fields.find(|(name, _)| name == "token");
    let token = token.map_or(String::new(), |(_, value)| value.into_owned());
    let cookie = state.access.exchange(&token).map_err(|error| {
        ErrorPage::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "No session could be created",
        )
        .because(error.to_string())
    })?;
    let cookie = cookie.ok_or_else(|| {
        ErrorPage::new(
            StatusCode::FORBIDDEN,
            "This link was already used, or is too old",
        )
        .because("Each link can be opened once within ten minutes. `host ui` prints a new one.")
        .link("/", "Go to the inbox")
    })?;
    Ok(([(SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}
