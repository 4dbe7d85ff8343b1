//! Forms: what every one contains, and the checks before a handler sees one.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use http::StatusCode;
use maud::{Markup, html};

use crate::access::Session;
use crate::error_page::ErrorPage;
use crate::state::AppState;

/// Maximum number of fields in a form.
const MAX_FIELDS: usize = 1_000;

/// The fields of a form that a page of this session has sent. The host is not in read-only mode.
pub struct CheckedForm {
    pub session: Session,
    fields: Vec<(String, String)>,
}

/// Returns a form that changes something. Empty in read-only mode.
pub fn form(
    state: &AppState,
    session: &Session,
    action: &str,
    class: &str,
    content: Markup,
) -> Markup {
    html! {
        @if !state.is_read_only() {
            form method="post" action=(action) class=(class) {
                input type="hidden" name="csrf" value=(state.access.secret.csrf_token(session));
                (content)
            }
        }
    }
}

impl CheckedForm {
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let field = fields.find(|(field, _)| field == name);
        field.map(|(_, value)| value.as_str())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let fields = self.fields.iter();
        fields
            .filter(move |(field, _)| field == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the trimmed text of a field; `None` if it is missing or blank.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    }
}

impl FromRequest<Arc<AppState>> for CheckedForm {
    type Rejection = ErrorPage;

    async fn from_request(request: Request, state: &Arc<AppState>) -> Result<Self, ErrorPage> {
        let (mut parts, body) = request.into_parts();
        let session = Session::from_request_parts(&mut parts, state).await?;
        if state.is_read_only() {
            return Err(ErrorPage::read_only());
        }
        let request = Request::from_parts(parts, body);
        let body = Bytes::from_request(request, state).await.map_err(|_| {
            ErrorPage::new(StatusCode::PAYLOAD_TOO_LARGE, "The form is too large")
                .because("Nothing was changed. Shorten the text and send it again.")
                .link("/", "Go to the inbox")
        })?;
        let fields = form_urlencoded::parse(&body).into_owned();
        let form = Self {
            session,
            fields: fields.take(MAX_FIELDS).collect(),
        };
        let expected = state.access.secret.csrf_token(&form.session);
        let given = form.get("csrf").unwrap_or_default();
        if blake3::hash(given.as_bytes()) != blake3::hash(expected.as_bytes()) {
            return Err(ErrorPage::new(
                StatusCode::FORBIDDEN,
                "This form is not from a page of this session",
            )
            .because("Nothing was changed. Load the page again and repeat the action.")
            .link("/", "Go to the inbox"));
        }
        Ok(form)
    }
}
