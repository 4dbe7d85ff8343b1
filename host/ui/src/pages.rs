//! The pages, one file each.

pub mod call;
mod cancel;
mod content;
mod edit;
mod export;
mod health;
pub mod inbox;
mod open;
mod plugins;
pub mod policy;
pub mod timeline;
mod undo;

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
        .route(
            "/questions/{number}/contents/{index}/{side}",
            get(content::content),
        )
        .route("/questions/{number}/edit", get(edit::edit))
        .route("/interviews/{number}", post(interviews::reply))
        .route("/open", get(open::ask).post(open::open))
        .route("/questions/{number}/text", get(inbox::whole_text_page))
        .route("/timeline", get(timeline::timeline))
        .route("/call", get(call::call))
        .route("/call/cancel", post(cancel::cancel))
        .route("/call/export.json", get(export::json))
        .route("/call/export.html", get(export::page))
        .route("/undo", get(undo::preview).post(undo::undo))
        .route("/plugins", get(plugins::plugins))
        .route("/plugins/disable", post(plugins::disable))
        .route("/plugins/enable", post(plugins::enable))
        .route("/policy", get(policy::policy))
        .route("/health", get(health::health))
}
