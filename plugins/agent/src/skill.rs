//! `skill`: loads instructions from a directory with a `SKILL.md`.

mod skill_store;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::{count, inline, list, nearest, truncate};

use self::skill_store::{MOST_BROKEN, Skill, SkillStore, shown};

/// Limit of a skill's text with its arguments, in bytes.
const MOST_TEXT_BYTES: usize = 512 << 10;
/// Limit of a list with complete descriptions, in bytes; in a longer one they are shortened.
const MOST_LIST_BYTES: usize = 38_000;
const SHORT_DESCRIPTION_CHARS: usize = 100;

/// A skill, or the list of skills.
#[data]
#[derive(Default)]
pub struct SkillOutput {
    /// Name.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Version.
    pub version: Option<String>,
    /// Its directory. Paths in its text are relative to it.
    pub base_dir: Option<String>,
    /// Tools the skill is meant to use; absent for all.
    pub allowed_tools: Option<Vec<String>>,
    /// Other files in its directory.
    pub resources: Option<Vec<String>>,
    /// The file list was cut.
    pub truncated: bool,
    /// Available skills, if none was named.
    pub skills: Option<Vec<SkillSummary>>,
}

/// A skill that can be loaded.
#[data]
pub struct SkillSummary {
    /// Name.
    pub name: String,
    /// What it is for.
    pub description: String,
}

/// Load a skill (instructions for a kind of work) before you start such work; without `skill`, list them.
#[tool(
    reads,
    idempotent,
    requires = ["skills"],
    category = "agent",
    kind = "read",
    icon = "graduation-cap",
    aliases = ["activate_skill", "use_skill"],
    tags = ["skill", "instructions", "workflow"],
    output = SkillOutput,
    example(description = "All skills", input = "{}"),
    example(description = "With arguments", input = r#"{"skill": "commit", "args": "only what is staged"}"#),
)]
pub fn skill(
    cx: &Context,
    /// Name of the skill.
    #[arg(min_len = 1, max_len = 128, aliases = ["name", "skill_name"])]
    skill: Option<String>,
    /// Replaces `$ARGUMENTS` in the skill.
    #[arg(max_len = 10000, aliases = ["arguments"])]
    args: Option<String>,
) -> Result<Outcome> {
    let store = SkillStore::of(cx)?;
    let Some(wanted) = skill
        .as_deref()
        .map(|name| name.trim().trim_start_matches('/'))
    else {
        return Ok(list_skills(&store));
    };
    let Some(skill) = store.find(wanted) else {
        return Err(unknown(wanted, &store));
    };
    load(skill, args.as_deref().unwrap_or_default().trim())
}

fn load(skill: &Skill, args: &str) -> Result<Outcome> {
    let body = skill.body.trim();
    let places = body.matches("$ARGUMENTS").count();
    if body.len() + places * args.len() > MOST_TEXT_BYTES {
        return Err(Error::invalid_input(format!(
            "the skill has {places} places for its arguments and would have more than {MOST_TEXT_BYTES} bytes"
        ))
        .code("arguments_too_large")
        .recommend("pass shorter `args`"));
    }
    let mut text = match args {
        "" => body.replace("$ARGUMENTS", ""),
        args if body.contains("$ARGUMENTS") => body.replace("$ARGUMENTS", args),
        args => format!("{body}\n\nArguments: {args}"),
    };
    let (resources, truncated) = skill.resources();
    push!(
        text,
        "\n\n(skill {}; its directory is {})",
        inline(&skill.name, 64),
        shown(&skill.folder)
    );
    if !resources.is_empty() {
        let more = if truncated { "\n- … and more" } else { "" };
        push!(
            text,
            "\nFiles in the directory:\n- {}{more}",
            resources.join("\n- ")
        );
    }
    if let Some(tools) = &skill.allowed_tools {
        push!(
            text,
            "\nIntended tools: {}",
            list(tools.iter().map(String::as_str), 50)
        );
    }
    let data = SkillOutput {
        name: Some(skill.name.clone()),
        description: Some(skill.description.clone()),
        version: skill.version.clone(),
        base_dir: Some(shown(&skill.folder)),
        allowed_tools: skill.allowed_tools.clone(),
        resources: Some(resources),
        truncated,
        skills: None,
    };
    Ok(Outcome::text(text)
        .summary(format!("loaded the skill {}", inline(&skill.name, 64)))
        .structured(&data))
}

fn list_skills(store: &SkillStore) -> Outcome {
    let sizes = store.skills.iter();
    let size: usize = sizes
        .map(|skill| skill.name.len() + skill.description.len())
        .sum();
    let most = if size > MOST_LIST_BYTES {
        SHORT_DESCRIPTION_CHARS
    } else {
        usize::MAX
    };
    let skills: Vec<SkillSummary> = store
        .skills
        .iter()
        .map(|skill| SkillSummary {
            name: skill.name.clone(),
            description: truncate(&skill.description, most),
        })
        .collect();
    let mut lines: Vec<String> = skills
        .iter()
        .map(|skill| format!("{}: {}", skill.name, skill.description))
        .collect();
    lines.extend(
        store
            .broken
            .iter()
            .take(MOST_BROKEN)
            .map(|broken| format!("(left out: {broken})")),
    );
    if let Some(more) = store.broken.len().checked_sub(MOST_BROKEN + 1) {
        lines.push(format!("(left out: {} more)", more + 1));
    }
    if store.unread > 0 {
        let unread = count(store.unread, "skill");
        lines.push(format!(
            "(left out: {unread} beyond the limit; ask the user to remove some)"
        ));
    }
    if store.skills.is_empty() {
        lines.push("there are no skills".to_owned());
    }
    let data = SkillOutput {
        skills: Some(skills),
        ..SkillOutput::default()
    };
    Outcome::text(lines.join("\n"))
        .summary(count(store.skills.len(), "skill"))
        .structured(&data)
}

fn unknown(wanted: &str, store: &SkillStore) -> Error {
    let known = || store.skills.iter().map(|skill| skill.name.as_str());
    let mut message = format!("no skill named {:?}", inline(wanted, 64));
    if let Some(near) = nearest(wanted, known()) {
        push!(message, "; did you mean {near:?}?");
    }
    let error = Error::not_found(message).code("skill_not_found");
    let of_wanted = |broken: &&String| {
        let reason = broken.strip_prefix(wanted);
        reason.is_some_and(|reason| reason.starts_with(": "))
    };
    let error = match store.broken.iter().find(of_wanted) {
        Some(broken) => error.recommend(format!("ask the user to fix it: {broken}")),
        None => error,
    };
    error.recommend(if store.skills.is_empty() {
        "no skills exist; continue without one".to_owned()
    } else {
        format!("use one of: {}", list(known(), 50))
    })
}

#[cfg(test)]
mod tests;
