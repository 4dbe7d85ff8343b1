//! The pages, one file each.

mod edit;
pub mod inbox;
mod open;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::state::AppState;
use crate::{answers, interviews};

pub fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/", get(inbox::inbox))
        .route("/questions/similar", post(answers::answer_similar))
        .route(
            "/questions/{number}/files/{index}/{side}",
            get(inbox::image),
        )
        .route("/questions/{number}/edit", get(edit::edit))
        .route("/interviews/{number}", post(interviews::reply))
        .route("/open", get(open::ask).post(open::open))
        .route("/questions/{number}/text", get(inbox::whole_text_page))
}
