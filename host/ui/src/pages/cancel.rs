//! Stops a running call.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Redirect;
use http::StatusCode;
use toolhost_contract::CallId;

use crate::error_page::ErrorPage;
use crate::form::CheckedForm;
use crate::links;
use crate::state::AppState;

pub async fn cancel(
    State(state): State<Arc<AppState>>,
    form: CheckedForm,
) -> Result<Redirect, ErrorPage> {
    let id = form.text("id").unwrap_or_default();
    let page = links::call(id);
    let kernel = state.options.kernel.as_ref();
    if kernel.is_some_and(|kernel| kernel.cancel(&CallId(id.to_owned()))) {
        return Ok(Redirect::to(&page));
    }
    Err(
        ErrorPage::new(StatusCode::CONFLICT, "This call does not run here")
            .because("It has ended, or another host runs it. Nothing was changed.")
            .link(page, "Go to the call"),
    )
}
