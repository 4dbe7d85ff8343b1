//! The style sheet, the script and the icon, which are part of the program.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::error_page::ErrorPage;

struct Asset {
    name: &'static str,
    content_type: &'static str,
    content: &'static str,
}

/// The style sheet: what all pages have in common, and the pages about past calls.
pub const STYLE: &str = concat!(
    include_str!("../assets/style.css"),
    include_str!("../assets/history.css")
);

const ASSETS: &[Asset] = &[
    Asset {
        name: "style.css",
        content_type: "text/css; charset=utf-8",
        content: STYLE,
    },
    Asset {
        name: "app.js",
        content_type: "text/javascript; charset=utf-8",
        content: concat!(
            include_str!("../assets/app.js"),
            include_str!("../assets/history.js")
        ),
    },
    Asset {
        name: "icon.svg",
        content_type: "image/svg+xml",
        content: include_str!("../assets/icon.svg"),
    },
];

/// Serves an asset. Its address contains the version, so browsers keep it.
pub async fn serve(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|asset| asset.name == name) {
        Some(asset) => {
            let headers = [
                (CONTENT_TYPE, asset.content_type),
                (CACHE_CONTROL, "public, max-age=31536000, immutable"),
            ];
            (headers, asset.content).into_response()
        }
        None => ErrorPage::not_found().into_response(),
    }
}

/// Returns the address of an asset, which changes with its content.
pub fn address(name: &str) -> String {
    let content = ASSETS.iter().find(|asset| asset.name == name);
    let content = content.map_or("", |asset| asset.content);
    let digest = blake3::hash(content.as_bytes()).to_hex();
    format!("/assets/{name}?v={}", &digest[..12])
}
