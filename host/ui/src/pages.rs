//! The pages, one file each.

pub mod inbox;
mod open;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::answers;
use crate::state::AppState;

pub fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/", get(inbox::inbox))
        .route("/questions/similar", post(answers::answer_similar))
        .route("/open", get(open::ask).post(open::open))
        .route("/questions/{number}/text", get(inbox::whole_text_page))
}
