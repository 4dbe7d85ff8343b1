//! `host policy`: explains the decision about a call, checks rules, and edits those of the configuration file.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueHint};
use toml_edit::{Array, DocumentMut, Item, Table, value};
use toolhost_contract::policy::Decision;
use toolhost_contract::{Principal, text};
use toolhost_kernel::{NoPrompter, Prompter};

use crate::config::{EditedFile, RuleText, push_item, remove_item};
use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::{HostArgs, IdentityArgs};
use crate::input;
use crate::json;
use crate::load::{LoadPurpose, RunningHost, load, load_quietly};
use crate::settings::CliSettings;
use crate::terminal::{note, print};

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Explain whether a call would be allowed and which rule, mode or approval decides, without running it
    #[command(after_help = EXPLAIN_HELP)]
    Explain(Box<ExplainArgs>),
    /// Check all rules against the loaded tools
    Check(Box<CheckArgs>),
    /// Allow calls that match these rules: add the rules to the configuration file
    #[command(after_help = ALLOW_HELP)]
    Allow(RulesArgs),
    /// Remove allow rules from the configuration file
    #[command(after_help = REMOVE_HELP)]
    Remove(RulesArgs),
}

const ALLOW_HELP: &str = "\
Examples:
  host policy allow 'write_file(notes/**)'    changes of files below notes
  host policy allow 'Bash(git *)' grep        commands of git, and all calls of grep

`host calls CALL` names the rule for a denied call. Running hosts read rules when they start; at the prompt, /allow RULE
allows calls until the host exits.";

const REMOVE_HELP: &str = "\
Running hosts keep the rules until they exit. `host approvals revoke` revokes approvals that were saved at a prompt.";

#[derive(Debug, Args)]
pub struct RulesArgs {
    /// Rule such as `name`, `plugin/*`, `Bash(git *)` or `Edit(src/**)`
    #[arg(value_name = "RULE", required = true)]
    pub rules: Vec<RuleText>,

    /// Configuration file [default: the user's toolhost.toml]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

const EXPLAIN_HELP: &str = "\
Examples:
  host policy explain write_file path=a.txt content=x --plugins ./plugins --mode plan
  host policy explain read_file '{\"path\": \"~/.ssh/id_ed25519\"}' --deny-tool 'Read(~/.ssh/**)' --plugins ./plugins

Exit codes: 0 would be allowed, 5 would be denied, 8 the user would be asked.";

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Name of the tool
    pub tool: String,

    /// `key=value …`, a JSON object, or `-` for JSON on standard input
    #[arg(value_name = "INPUT")]
    pub input: Vec<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub identity: IdentityArgs,

    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Configuration file [default: the user's toolhost.toml]
    #[arg(value_hint = ValueHint::FilePath, conflicts_with = "config")]
    pub file: Option<PathBuf>,

    #[command(flatten)]
    pub host: HostArgs,
}

pub async fn policy(command: PolicyCommand) -> Result<Exit, CliError> {
    match command {
        PolicyCommand::Explain(args) => explain(*args).await,
        PolicyCommand::Check(args) => check(*args).await,
        PolicyCommand::Allow(args) => allow(args).await,
        PolicyCommand::Remove(args) => remove(&args),
    }
}

/// Writes the file unless the result is invalid, says what was done with the rules, and returns the new settings.
fn write(file: &mut EditedFile, done: &str, rules: &[&str]) -> Result<CliSettings, CliError> {
    let settings = CliSettings::of_text(file.path(), &file.document.to_string())?;
    file.write()?;
    let message = format!(
        "{done} `allow` under [policy] in {}: {}",
        file.path().display(),
        shown(rules)
    );
    print(&message).or_exit(Exit::Internal)?;
    Ok(settings)
}

fn shown(rules: &[&str]) -> String {
    let quoted = |rule: &&str| format!("`{}`", text::escape_line(rule, 200));
    let shown: Vec<String> = rules.iter().map(quoted).collect();
    shown.join(", ")
}

async fn allow(args: RulesArgs) -> Result<Exit, CliError> {
    let mut file = EditedFile::open(args.config.as_deref())?;
    let added = add_allow_rules(&mut file.document, &args.rules).or_exit(Exit::Config)?;
    if added.is_empty() {
        let message = format!("{} has these rules already", file.path().display());
        print(&message).or_exit(Exit::Internal)?;
        return Ok(Exit::Ok);
    }
    let settings = write(&mut file, "added to", &added)?;
    warn_of_unknown_tools(&settings, &added).await;
    Ok(Exit::Ok)
}

fn remove(args: &RulesArgs) -> Result<Exit, CliError> {
    let mut file = EditedFile::open(args.config.as_deref())?;
    let mut rules: Vec<&str> = args.rules.iter().map(RuleText::as_str).collect();
    rules.dedup();
    remove_allow_rules(&mut file.document, &rules).map_err(|reason| {
        CliError::new(Exit::Usage, format!("{}: {reason}", file.path().display()))
    })?;
    write(&mut file, "removed from", &rules)?;
    Ok(Exit::Ok)
}

/// Warns about added rules for tools that no plugin has. Tools of servers are unknown without starting the servers.
async fn warn_of_unknown_tools(settings: &CliSettings, added: &[&str]) {
    if !settings.core.has_plugins() || settings.has_servers() {
        return;
    }
    let Ok(host) = load_quietly(settings).await else {
        return;
    };
    // The rules of a plugin that failed to load match nothing either.
    if !host.loaded().broken.is_empty() {
        return;
    }
    let quoted = added.iter().flat_map(|rule| {
        let tool = rule.split('(').next().unwrap_or(rule);
        let plugin = tool
            .split_once('/')
            .map(|(plugin, _)| plugin.to_lowercase());
        let plugin = plugin.map(|plugin| format!("no loaded plugin is called `{plugin}`"));
        [Some(format!("`{tool}`")), plugin]
    });
    let quoted: Vec<String> = quoted.flatten().collect();
    for found in host.rule_warnings() {
        if quoted.iter().any(|name| found.message.contains(name)) {
            note(&format!("warning: {}: {}", found.position, found.message));
        }
    }
}

/// The rules that were not there yet.
fn add_allow_rules<'a>(
    document: &mut DocumentMut,
    rules: &'a [RuleText],
) -> anyhow::Result<Vec<&'a str>> {
    let policy = document
        .entry("policy")
        .or_insert_with(|| Item::Table(Table::new()))
        .as_table_like_mut()
        .context("`policy` is not a table; correct it")?;
    let list = policy
        .entry("allow")
        .or_insert_with(|| value(Array::new()))
        .as_array_mut()
        .context("`allow` under [policy] is not a list; correct it")?;
    let mut added = Vec::new();
    for rule in rules.iter().map(RuleText::as_str) {
        if !list.iter().any(|known| known.as_str() == Some(rule)) {
            push_item(list, rule);
            added.push(rule);
        }
    }
    Ok(added)
}

/// Removes all of the rules, or none if one is missing.
fn remove_allow_rules(document: &mut DocumentMut, rules: &[&str]) -> Result<(), String> {
    let policy = document.get_mut("policy").and_then(Item::as_table_like_mut);
    let list = policy
        .and_then(|policy| policy.get_mut("allow"))
        .and_then(Item::as_array_mut);
    let known = |list: &Array, rule: &str| list.iter().position(|item| item.as_str() == Some(rule));
    let missing: Vec<&str> = rules
        .iter()
        .copied()
        .filter(|rule| list.as_ref().is_none_or(|list| known(list, rule).is_none()))
        .collect();
    if !missing.is_empty() {
        let rules = list.map(|list| list.iter().filter_map(|item| item.as_str()).collect());
        let rules: Vec<&str> = rules.unwrap_or_default();
        let there = match &rules[..] {
            [] => "it is empty".to_owned(),
            rules => format!("it contains {}", shown(rules)),
        };
        return Err(format!(
            "`allow` under [policy] does not contain {}; {there}",
            shown(&missing)
        ));
    }
    if let Some(list) = list {
        for rule in rules {
            while let Some(index) = known(list, rule) {
                remove_item(list, index);
            }
        }
    }
    Ok(())
}

async fn load_for_policy(settings: CliSettings) -> Result<RunningHost, CliError> {
    let prompter: Arc<dyn Prompter> = Arc::new(NoPrompter);
    Box::pin(load(settings, prompter, LoadPurpose::Explain)).await
}

async fn explain(args: ExplainArgs) -> Result<Exit, CliError> {
    let host = load_for_policy(CliSettings::load(&args.host)?).await?;
    host.require_plugins()?;
    let registry = host.kernel.registry();
    let entry = registry
        .get(&args.tool)
        .ok_or_else(|| registry.unknown(&args.tool))
        .or_exit(Exit::Usage)?;
    let schema = Some(&entry.tool.input_schema);
    let limit = host.kernel.settings().max_input_bytes;
    let input = input::parse(&args.input, schema, std::io::stdin(), limit).or_exit(Exit::Usage)?;
    let caller = args.identity.stated(Principal::default());
    let explanation = host.kernel.explain(entry, &input, &caller);
    let shown = if args.json {
        json::pretty(explanation.to_value()).or_exit(Exit::Internal)?
    } else {
        explanation.to_string().trim_end().to_owned()
    };
    print(&shown).or_exit(Exit::Internal)?;
    if !entry.enabled {
        note("note: the tool is disabled, so every call is denied");
    }
    let missing = entry.missing_grants(&input);
    if !missing.is_empty() {
        note(&missing_grants_note(entry.name.as_str(), &missing));
    }
    let deciding = host
        .settings
        .core
        .hooks
        .iter()
        .filter(|hook| hook.is_deciding());
    let names: Vec<&str> = deciding.map(|hook| hook.name.as_str()).collect();
    if !names.is_empty() {
        note(&format!(
            "note: hooks were not run and can still deny the call: {}",
            names.join(", ")
        ));
    }
    Ok(match explanation.decision() {
        _ if !entry.enabled => Exit::Denied,
        Decision::Allow => Exit::Ok,
        Decision::Deny => Exit::Denied,
        Decision::Ask => Exit::Waiting,
    })
}

fn missing_grants_note(tool: &str, missing: &[String]) -> String {
    format!(
        "note: `{tool}` cannot run without {}; repeat with what is missing, because rules for commands apply only to \
         commands that the host can run",
        text::escape_lines(&missing.join(", "), 1_000)
    )
}

/// `Settings::load` returns errors with the exit code of a configuration error.
async fn check(args: CheckArgs) -> Result<Exit, CliError> {
    let mut host_args = args.host;
    host_args.config = args.file.or(host_args.config);
    let settings = CliSettings::load(&host_args)?;
    let policy = Arc::clone(&settings.core.policy);
    let (rules, mode) = (policy.rules().len(), policy.mode());
    // Without plugins, rules cannot be checked against tools, but their own errors are still found.
    let mut lines = Vec::new();
    if settings.core.has_plugins() {
        // Loading prints the warnings.
        load_for_policy(settings).await?;
    } else {
        for warning in &settings.warnings {
            note(&format!("warning: {warning}"));
        }
        lines.push("no plugins given, so tool names were not checked".to_owned());
    }
    for found in policy.check_wildcards() {
        note(&found.to_string());
    }
    let plural = if rules == 1 { "" } else { "s" };
    lines.push(format!("ok: mode {mode}, {rules} rule{plural}"));
    print(&lines.join("\n")).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn an_explanation_names_the_grants_that_the_call_lacks() {
        let missing = ["a program to run (`--allow-program bash`)".to_owned()];
        expect!["note: `shell` cannot run without a program to run (`--allow-program bash`); repeat with what is missing, because rules for commands apply only to commands that the host can run"]
            .assert_eq(&missing_grants_note("shell", &missing));
    }

    #[test]
    fn rules_are_added_once_and_the_rest_of_the_file_is_kept() {
        let rules: Vec<RuleText> = ["grep", "Bash(git *)"]
            .map(|rule| rule.parse().unwrap())
            .into();
        let text = "mode = 1 # mine\n[policy]\nallow = [\"grep\"] # here\ndeny = [\"x\"]\n";
        let mut document: DocumentMut = text.parse().unwrap();
        assert_eq!(
            add_allow_rules(&mut document, &rules).unwrap(),
            ["Bash(git *)"]
        );
        expect![[r#"
            mode = 1 # mine
            [policy]
            allow = ["grep", "Bash(git *)"] # here
            deny = ["x"]
        "#]]
        .assert_eq(&document.to_string());
        assert!(add_allow_rules(&mut document, &rules).unwrap().is_empty());
        let mut empty = DocumentMut::new();
        add_allow_rules(&mut empty, &rules).unwrap();
        expect![[r#"
            [policy]
            allow = ["grep", "Bash(git *)"]
        "#]]
        .assert_eq(&empty.to_string());
        let mut wrong: DocumentMut = "policy = 3".parse().unwrap();
        assert!(add_allow_rules(&mut wrong, &rules).is_err());
    }

    #[test]
    fn a_rule_is_added_below_the_comment_of_the_last_one() {
        let text = "[policy]\nallow = [\n  \"a\", # about a\n]\n";
        let mut document: DocumentMut = text.parse().unwrap();
        add_allow_rules(&mut document, &["grep".parse().unwrap()]).unwrap();
        expect![[r#"
            [policy]
            allow = [
              "a", # about a
              "grep",
            ]
        "#]]
        .assert_eq(&document.to_string());
    }

    #[test]
    fn comments_stay_when_rules_are_removed() {
        let removed = |rule: &str| {
            let text = "[policy]\nallow = [\n  # first\n  \"a\", # about a\n  \"b\", # about b\n  \"c\", # about c\n]\n";
            let mut document: DocumentMut = text.parse().unwrap();
            remove_allow_rules(&mut document, &[rule]).unwrap();
            let after = document.to_string();
            after.parse::<DocumentMut>().unwrap();
            after
        };
        for rule in ["a", "b", "c"] {
            let after = removed(rule);
            for comment in ["# first", "# about a", "# about b", "# about c"] {
                assert_eq!(after.matches(comment).count(), 1, "{after}");
            }
            assert!(!after.contains(&format!("\"{rule}\"")), "{after}");
        }
    }

    #[test]
    fn nothing_is_removed_if_a_rule_is_missing() {
        let check = |rules: &[&str], expected: Result<&str, &str>| {
            let text = "[policy]\nallow = [\"grep\", \"Bash(git *)\"] # here\ndeny = [\"x\"]\n";
            let mut document: DocumentMut = text.parse().unwrap();
            let removed = remove_allow_rules(&mut document, rules);
            match expected {
                Ok(list) => {
                    removed.unwrap();
                    let expected = format!("[policy]\nallow = {list} # here\ndeny = [\"x\"]\n");
                    assert_eq!(document.to_string(), expected);
                }
                Err(reason) => {
                    assert_eq!(removed.unwrap_err(), reason);
                    assert_eq!(document.to_string(), text);
                }
            }
        };
        check(&["Bash(git *)"], Ok("[\"grep\"]"));
        check(&["grep"], Ok("[\"Bash(git *)\"]"));
        check(&["grep", "Bash(git *)", "grep"], Ok("[]"));
        check(
            &["grep", "x"],
            Err("`allow` under [policy] does not contain `x`; it contains `grep`, `Bash(git *)`"),
        );
        let mut empty = DocumentMut::new();
        assert_eq!(
            remove_allow_rules(&mut empty, &["grep"]).unwrap_err(),
            "`allow` under [policy] does not contain `grep`; it is empty"
        );
    }
}
