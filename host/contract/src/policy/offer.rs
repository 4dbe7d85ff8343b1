//! Approvals offered in a prompt, each limited to what the call accesses, and the rule that would avoid the prompt.

use super::approval::{ApprovalScope, Narrowing, PathNarrowing, ToolIdentity};
use super::call_analysis::{AccessKind, AccessRequest, CallAnalysis};
use super::path_pattern::strip_dir;
use super::tool_names::ToolFamily;
use super::{AccessClass, PathContext};
use crate::text;
use toolhost_shell_syntax as shell;

/// Maximum number of accesses in one offer, so that the user can review all of them.
const MAX_OFFERED_ACCESSES: usize = 4;

/// An approval that the user can choose. The text states its scope and everything it covers.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    pub scope: ApprovalScope,
    pub narrowing: Narrowing,
    pub text: String,
}

/// What every front end states where approvals can be saved.
pub const SAVED_APPROVAL_NOTE: &str = "Calls that a saved approval covers run without asking again. `host approvals` lists and revokes saved approvals.";

/// Maximum number of rule forms in a suggestion; beyond it the tool's name is suggested.
const MAX_SUGGESTED_FORMS: usize = 4;

/// The narrowest forms of an allow rule that covers these accesses.
pub(super) fn suggest_forms<'a>(
    analysis: &CallAnalysis,
    parts: impl IntoIterator<Item = &'a AccessRequest>,
) -> Vec<String> {
    let request = &analysis.request;
    if analysis.modifiers.has_any() {
        // A rule for commands would not cover it.
        return vec![format!("{}/{}", request.plugin, request.tool.name)];
    }
    // A family name does not allow a tool whose commands the host does not run.
    let name = if ToolFamily::is_family_name(request.name.as_str()) && !analysis.host_runs_command {
        format!("{}/{}", request.plugin, request.tool.name)
    } else {
        request.name.to_string()
    };
    let mut forms: Vec<String> = Vec::new();
    for part in parts {
        let form = match rule_argument(part) {
            Some(specifier) => format!("{name}({specifier})"),
            None => name.clone(),
        };
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    if forms.is_empty() || forms.len() > MAX_SUGGESTED_FORMS || forms.contains(&name) {
        forms = vec![name];
    }
    forms
}

/// Suggests the smallest configuration change that allows these accesses.
pub(super) fn suggest_rule<'a>(
    analysis: &CallAnalysis,
    parts: impl IntoIterator<Item = &'a AccessRequest> + Clone,
) -> String {
    let mut kinds = parts.clone().into_iter().map(|part| &part.kind);
    if kinds.any(|kind| matches!(kind, AccessKind::Unknown(_))) {
        return "rewrite the command so that it can be analyzed, or answer at a terminal; no allow rule covers it as it is"
            .to_owned();
    }
    let forms = suggest_forms(analysis, parts);
    let without = if analysis.modifiers.has_any() {
        format!(
            "{}, or to allow it with any variables ",
            analysis.modifiers.remedy()
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
fn rule_argument(part: &AccessRequest) -> Option<String> {
    let plain = |text: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || " ._-/".contains(c))
    };
    match &part.kind {
        AccessKind::Command(_) if part.depends_on_other_directory => None,
        AccessKind::Command(command) => {
            shell::approval_prefix(command).map(|prefix| format!("{} *", prefix.join(" ")))
        }
        AccessKind::Path { shown, .. }
            if plain(shown) && !shown.starts_with('/') && !shown.contains("..") =>
        {
            // A bare name would match at every depth.
            let front = if shown.contains('/') { "" } else { "./" };
            Some(format!("{front}{shown}"))
        }
        AccessKind::Address {
            host: Some(host), ..
        } => Some(format!("domain:{host}")),
        AccessKind::Path { .. }
        | AccessKind::Address { .. }
        | AccessKind::Unknown(_)
        | AccessKind::Variable { .. }
        | AccessKind::Call => None,
    }
}

/// Lists the offers: first once, then those to save, from narrow to wide. If the call accesses paths, commands or
/// addresses, longer offers are limited to them.
pub(super) fn build_offers(
    asking: &[&AccessRequest],
    analysis: &CallAnalysis,
    may_remember: bool,
    path_context: &PathContext,
) -> Vec<Offer> {
    let name = &analysis.request.name;
    let mut offers = vec![Offer {
        scope: ApprovalScope::Once,
        narrowing: Narrowing {
            input: Some(analysis.request.input.clone()),
            ..Narrowing::default()
        },
        text: format!("Allow `{name}` this once"),
    }];
    if !may_remember {
        return offers;
    }
    let Some(narrowest) = narrow(asking, analysis, false, path_context) else {
        return offers;
    };
    let wider = narrow(asking, analysis, true, path_context).filter(|wider| wider.0 != narrowest.0);
    let narrowings = [Some(narrowest), wider].into_iter().flatten();
    let mut scopes = vec![ApprovalScope::Session];
    if ToolIdentity::of(&analysis.request).has_digest() {
        scopes.extend([ApprovalScope::Project, ApprovalScope::User]);
    }
    let limit = if analysis.request.only_paths().is_empty() {
        ""
    } else {
        ", only in the same directories,"
    };
    for (narrowing, description) in narrowings {
        for &scope in &scopes {
            offers.push(Offer {
                scope,
                narrowing: narrowing.clone(),
                text: format!("Allow {description}{limit} {}", scope.label()),
            });
        }
    }
    offers
}

/// An approval that covers exactly this call.
pub(super) fn exact_narrowing(
    asking: &[&AccessRequest],
    analysis: &CallAnalysis,
    path_context: &PathContext,
) -> Option<Narrowing> {
    let (narrowing, _) = narrow(asking, analysis, false, path_context)?;
    Some(Narrowing {
        input: Some(analysis.request.input.clone()),
        ..narrowing
    })
}

/// An approval that covers every asking access, with its text. `None`: an access cannot be narrowed, so nothing is
/// saved.
fn narrow(
    asking: &[&AccessRequest],
    analysis: &CallAnalysis,
    wide: bool,
    path_context: &PathContext,
) -> Option<(Narrowing, String)> {
    let name = &analysis.request.name;
    let mut narrowing = Narrowing {
        only_paths: analysis.request.only_paths().to_vec(),
        ..Narrowing::default()
    };
    let mut descriptions: Vec<String> = Vec::new();
    let exact = asking.iter().any(|part| analysis.is_understated(part));
    let wide = wide && !exact;
    if exact {
        narrowing.input = Some(analysis.request.input.clone());
    }
    for part in asking {
        match &part.kind {
            AccessKind::Command(_) if !analysis.host_runs_command => {}
            AccessKind::Command(_) if part.depends_on_other_directory => {
                narrowing.input = Some(analysis.request.input.clone());
            }
            AccessKind::Command(command) => {
                let prefix = shell::approval_prefix(command)?;
                descriptions.push(format!("`{} …`", text::escape_line(&prefix.join(" "), 120)));
                narrowing.commands.push(prefix);
            }
            AccessKind::Path {
                path_ref, write, ..
            } => {
                let file = path_ref.exact()?;
                let dir = offerable_directory(file, path_context)
                    .filter(|_| wide && !part.classes.contains(&AccessClass::Protected));
                let place = match dir {
                    Some(dir) => format!("below `{}/`", text::escape_line(dir, 200)),
                    None => format!("on `{}`", text::escape_line(file, 200)),
                };
                let content = if *write { " with any content" } else { "" };
                descriptions.push(format!("`{name}` {place}{content}"));
                narrowing.paths.push(PathNarrowing {
                    path: dir.unwrap_or(file).to_owned(),
                    tree: dir.is_some(),
                    write: *write,
                });
            }
            AccessKind::Address {
                host: Some(host), ..
            } => {
                descriptions.push(format!("`{name}` to reach `{host}`"));
                narrowing.domains.push(host.clone());
            }
            AccessKind::Address { named: true, .. }
            | AccessKind::Unknown(_)
            | AccessKind::Variable { named: false, .. } => return None,
            AccessKind::Address { .. } | AccessKind::Call if wide => {
                descriptions.push(format!("every call of `{name}`"));
                narrowing.tool = true;
            }
            AccessKind::Variable { named: true, .. }
            | AccessKind::Address { .. }
            | AccessKind::Call => {
                narrowing.input = Some(analysis.request.input.clone());
            }
        }
    }
    if narrowing.input.is_some() {
        // The whole input is approved, and nothing beyond it.
        descriptions = vec![format!("`{name}` with exactly this input")];
    }
    narrowing.commands.sort();
    narrowing.commands.dedup();
    narrowing.paths.sort();
    narrowing.paths.dedup();
    let mut shown: Vec<String> = Vec::new();
    for description in descriptions {
        if !shown.contains(&description) {
            shown.push(description);
        }
    }
    // The user can only approve what is shown; two truncated texts can look the same.
    let accesses = narrowing.commands.len() + narrowing.paths.len() + narrowing.domains.len();
    (accesses <= MAX_OFFERED_ACCESSES || narrowing.input.is_some())
        .then(|| (narrowing, shown.join(" and ")))
}

/// The directory of a file, unless it contains the working directory or the home directory, which is too wide.
fn offerable_directory<'a>(file: &'a str, path_context: &PathContext) -> Option<&'a str> {
    let (dir, _) = file.rsplit_once('/')?;
    let holds = |path: &str| strip_dir(path, dir).is_some_and(|rest| !rest.is_empty());
    let home = path_context.home.as_deref();
    let too_wide = dir.is_empty()
        || holds(&path_context.cwd)
        || home.is_some_and(|home| home == dir || holds(home));
    (!too_wide).then_some(dir)
}
