//! Approvals offered in a prompt, each limited to what the call accesses, and the rule that would avoid the prompt.

use super::approval::{Identity, Narrowing, PathNarrowing, Scope};
use super::facts::{Facts, Part, What};
use super::names::Family;
use super::place::below;
use super::{Column, Places};
use crate::{shell, text};

/// Maximum number of accesses in one offer, so that the user can review all of them.
const SHOWN: usize = 4;

/// An approval that the user can choose. The text states its scope and everything it covers.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    pub scope: Scope,
    pub narrowing: Narrowing,
    pub words: String,
}

/// Maximum number of rule forms in a suggestion; beyond it the tool's name is suggested.
const MOST_FORMS: usize = 4;

/// Suggests the smallest configuration change that allows these accesses.
pub(super) fn how_to_allow<'a>(
    analysis: &Facts,
    parts: impl IntoIterator<Item = &'a Part>,
) -> String {
    let request = &analysis.request;
    // A family name does not allow a tool whose commands the host does not run.
    let name = if Family::is_word(request.name.as_str()) && !analysis.executes {
        format!("{}/{}", request.plugin, request.tool.name)
    } else {
        request.name.to_string()
    };
    let mut forms: Vec<String> = Vec::new();
    for part in parts {
        let form = match narrowed(part) {
            Some(what) => format!("{name}({what})"),
            None => name.clone(),
        };
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    if forms.is_empty() || forms.len() > MOST_FORMS || forms.contains(&name) {
        forms = vec![name];
    }
    let without = if analysis.steering.is_some() {
        // A rule for commands would not cover it.
        forms = vec![format!("{}/{}", request.plugin, request.tool.name)];
        format!(
            "{}, or to allow it with any variables ",
            analysis.steering.remedy()
        )
    } else {
        String::new()
    };
    let flags: Vec<String> = forms
        .iter()
        .map(|form| {
            let quote = if form.contains([' ', '(']) { "'" } else { "" };
            format!("--allow-tool {quote}{form}{quote}")
        })
        .collect();
    let quoted: Vec<String> = forms.iter().map(|form| format!("\"{form}\"")).collect();
    format!(
        "{without}run host with {}, or put `allow = [{}]` under [policy] in toolhost.toml",
        flags.join(" "),
        quoted.join(", ")
    )
}

/// The rule argument for this access; `None` if nothing narrower than the tool applies.
fn narrowed(part: &Part) -> Option<String> {
    let plain = |text: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || " ._-/".contains(c))
    };
    match &part.what {
        What::Command(command) => {
            shell::prefix(command).map(|prefix| format!("{} *", prefix.join(" ")))
        }
        What::Path { shown, .. }
            if plain(shown) && !shown.starts_with('/') && !shown.contains("..") =>
        {
            // A bare name would match at every depth.
            let front = if shown.contains('/') { "" } else { "./" };
            Some(format!("{front}{shown}"))
        }
        What::Address {
            host: Some(host), ..
        } => Some(format!("domain:{host}")),
        What::Path { .. }
        | What::Address { .. }
        | What::Unknown(_)
        | What::Variable { .. }
        | What::Whole => None,
    }
}

/// Lists the offers: first once, then those to save, from narrow to wide. If the call accesses paths, commands or
/// addresses, longer offers are limited to them.
pub(super) fn offers(
    asking: &[&Part],
    analysis: &Facts,
    may_remember: bool,
    places: &Places,
) -> Vec<Offer> {
    let name = &analysis.request.name;
    let mut offers = vec![Offer {
        scope: Scope::Once,
        narrowing: Narrowing {
            input: Some(analysis.request.input.clone()),
            ..Narrowing::default()
        },
        words: format!("Allow `{name}` this once"),
    }];
    if !may_remember {
        return offers;
    }
    let Some(narrowest) = narrow(asking, analysis, false, places) else {
        return offers;
    };
    let wider = narrow(asking, analysis, true, places).filter(|wider| wider.0 != narrowest.0);
    let narrowings = [Some(narrowest), wider].into_iter().flatten();
    let mut scopes = vec![Scope::Session];
    if Identity::of(&analysis.request).is_lasting() {
        scopes.extend([Scope::Project, Scope::User]);
    }
    for (narrowing, what) in narrowings {
        for &scope in &scopes {
            offers.push(Offer {
                scope,
                narrowing: narrowing.clone(),
                words: format!("Allow {what} {}", scope.words()),
            });
        }
    }
    offers
}

/// An approval that covers exactly this call.
pub(super) fn exactly(asking: &[&Part], analysis: &Facts, places: &Places) -> Option<Narrowing> {
    let (narrowing, _) = narrow(asking, analysis, false, places)?;
    Some(Narrowing {
        input: Some(analysis.request.input.clone()),
        ..narrowing
    })
}

/// An approval that covers every asking access, with its text. `None`: an access cannot be narrowed, so nothing is
/// saved.
fn narrow(
    asking: &[&Part],
    analysis: &Facts,
    wide: bool,
    places: &Places,
) -> Option<(Narrowing, String)> {
    let name = &analysis.request.name;
    let mut narrowing = Narrowing::default();
    let mut words: Vec<String> = Vec::new();
    let exact = asking.iter().any(|part| analysis.says_too_little(part));
    let wide = wide && !exact;
    if exact {
        narrowing.input = Some(analysis.request.input.clone());
    }
    for part in asking {
        match &part.what {
            What::Command(_) if !analysis.executes => {}
            What::Command(command) => {
                let prefix = shell::prefix(command)?;
                words.push(format!("`{} …`", text::inline(&prefix.join(" "), 120)));
                narrowing.commands.push(prefix);
            }
            What::Path {
                path_ref, write, ..
            } => {
                let file = path_ref.exact()?;
                let dir = directory(file, places)
                    .filter(|_| wide && !part.columns.contains(&Column::Protected));
                words.push(match dir {
                    Some(dir) => format!("`{name}` below `{}/`", text::inline(dir, 200)),
                    None => format!("`{name}` on `{}`", text::inline(file, 200)),
                });
                narrowing.paths.push(PathNarrowing {
                    path: dir.unwrap_or(file).to_owned(),
                    tree: dir.is_some(),
                    write: *write,
                });
            }
            What::Address {
                host: Some(host), ..
            } => {
                words.push(format!("`{name}` to reach `{host}`"));
                narrowing.domains.push(host.clone());
            }
            What::Address { named: true, .. }
            | What::Unknown(_)
            | What::Variable { named: false, .. } => return None,
            What::Address { .. } | What::Whole if wide => {
                words.push(format!("every call of `{name}`"));
                narrowing.tool = true;
            }
            What::Variable { named: true, .. } | What::Address { .. } | What::Whole => {
                narrowing.input = Some(analysis.request.input.clone());
            }
        }
    }
    if narrowing.input.is_some() {
        // The whole input is approved, and nothing beyond it.
        words = vec![format!("`{name}` with exactly this input")];
    }
    narrowing.commands.sort();
    narrowing.commands.dedup();
    narrowing.paths.sort();
    narrowing.paths.dedup();
    let mut shown: Vec<String> = Vec::new();
    for word in words {
        if !shown.contains(&word) {
            shown.push(word);
        }
    }
    // The user can only approve what is shown; two truncated texts can look the same.
    let things = narrowing.commands.len() + narrowing.paths.len() + narrowing.domains.len();
    (things <= SHOWN || narrowing.input.is_some()).then(|| (narrowing, shown.join(" and ")))
}

/// The directory of a file, unless it contains the working directory or the home directory, which is too wide.
fn directory<'a>(file: &'a str, places: &Places) -> Option<&'a str> {
    let (dir, _) = file.rsplit_once('/')?;
    let holds = |place: &str| below(place, dir).is_some_and(|rest| !rest.is_empty());
    let home = places.home.as_deref();
    let too_wide =
        dir.is_empty() || holds(&places.cwd) || home.is_some_and(|home| home == dir || holds(home));
    (!too_wide).then_some(dir)
}
