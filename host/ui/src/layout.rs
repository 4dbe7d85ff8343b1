//! The frame of every page: head, navigation and the line that reports a lost connection.

use maud::{DOCTYPE, Markup, html};

use crate::assets;
use crate::state::AppState;

/// The pages of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NavPage {
    Inbox,
    Timeline,
    Plugins,
    Policy,
    Health,
}

impl NavPage {
    const ALL: [NavPage; 5] = [
        NavPage::Inbox,
        NavPage::Timeline,
        NavPage::Plugins,
        NavPage::Policy,
        NavPage::Health,
    ];

    fn target(self) -> &'static str {
        match self {
            NavPage::Inbox => "/",
            NavPage::Timeline => "/timeline",
            NavPage::Plugins => "/plugins",
            NavPage::Policy => "/policy",
            NavPage::Health => "/health",
        }
    }

    fn label(self) -> &'static str {
        match self {
            NavPage::Inbox => "Inbox",
            NavPage::Timeline => "Timeline",
            NavPage::Plugins => "Plugins",
            NavPage::Policy => "Policy",
            NavPage::Health => "Health",
        }
    }
}

/// A page with navigation. `title` contains no text of guests.
pub fn page(state: &AppState, current: NavPage, title: &str, content: Markup) -> Markup {
    let pending = state.inbox().counts().total();
    let shown_title = match pending {
        0 => format!("{title} · Toolhost"),
        count => format!("({count}) {title} · Toolhost"),
    };
    let body = html! {
        a class="skip" href="#main" { "Skip to the content" }
        header class="top" {
            a class="brand" href="/" { img src=(assets::address("icon.svg")) alt="" width="20" height="20"; span { "Toolhost" } }
            nav aria-label="Pages" {
                @for page in NavPage::ALL {
                    a href=(page.target()) aria-current=[(page == current).then_some("page")] {
                        (page.label())
                        @if page == NavPage::Inbox {
                            span id="pending-count" class="count" hidden[pending == 0] { (pending) }
                        }
                    }
                }
            }
            @if state.is_read_only() { span class="tag" { "read-only" } }
        }
        p id="connection" class="banner" role="status" hidden {}
        main id="main" { (content) }
        (keys())
    };
    document(&shown_title, "live", body)
}

/// The list of keys, which `?` opens.
fn keys() -> Markup {
    html! {
        dialog id="keys" aria-labelledby="keys-title" {
            h2 id="keys-title" { "Keys" }
            dl {
                @for (key, meaning) in KEYS { dt { kbd { (key) } } dd { (meaning) } }
            }
            form method="dialog" { button { "Close" } }
        }
    }
}

const KEYS: [(&str, &str); 7] = [
    ("j", "next question"),
    ("k", "previous question"),
    ("y", "approve once"),
    ("a", "save an approval: choose its scope"),
    ("e", "edit before approving"),
    ("n", "decline, with a message"),
    ("?", "show these keys"),
];

/// A page without navigation, for browsers that are not connected to the host.
pub fn bare_page(title: &str, content: Markup) -> Markup {
    let body = html! {
        header class="top" { a class="brand" href="/" { img src=(assets::address("icon.svg")) alt="" width="20" height="20"; span { "Toolhost" } } }
        main id="main" class="narrow" { (content) }
    };
    document(&format!("{title} · Toolhost"), "bare", body)
}

fn document(title: &str, kind: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" type="image/svg+xml" href=(assets::address("icon.svg"));
                link rel="stylesheet" href=(assets::address("style.css"));
                script src=(assets::address("app.js")) defer {}
            }
            body data-kind=(kind) { (body) }
        }
    }
}
