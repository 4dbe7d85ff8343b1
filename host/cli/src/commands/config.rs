//! `host config check`: checks the configuration file and prints the resulting settings.

use std::fmt::Write as _;
use std::path::PathBuf;

use toolhost::grants::ScopeOpener;
use toolhost::{AllowedPath, HookSettings};
use toolhost_contract::units::format_duration;

use crate::args::HostArgs;
use crate::exit::{CliError, Exit, OrExit};
use crate::settings::CliSettings;
use crate::terminal::print;

pub fn check(file: Option<PathBuf>) -> Result<Exit, CliError> {
    let settings = CliSettings::load(&HostArgs {
        config: file,
        ..HostArgs::default()
    })?;
    let Some(file) = &settings.core.config_file else {
        let place = settings
            .core
            .host_paths
            .config_file()
            .map(|file| format!(" at {}", file.display()))
            .unwrap_or_default();
        let mut words = format!("no configuration file{place}; all settings have their defaults");
        if let Some(store) = &settings.core.store {
            let _ = write!(words, "\nrecords: {}", store.display());
        }
        print(&words).or_exit(Exit::Internal)?;
        return Ok(Exit::Ok);
    };
    if let Some(missing) = settings.core.plugins.iter().find(|path| !path.exists()) {
        let words = format!(
            "{}: plugin directory `{}` does not exist",
            file.display(),
            missing.display()
        );
        return Err(CliError::new(Exit::Config, words));
    }
    // A grant can only be checked by opening its directory.
    ScopeOpener::new(&settings.core)
        .map_err(|error| error.context(file.display().to_string()))
        .or_exit(Exit::Config)?;
    print(&summary(&settings)).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn summary(settings: &CliSettings) -> String {
    let mut lines = Vec::new();
    let mut say = |label: &str, values: Vec<String>| {
        if !values.is_empty() {
            lines.push(format!("{label}: {}", values.join(", ")));
        }
    };
    say(
        "file",
        settings
            .core
            .config_file
            .iter()
            .map(|file| file.display().to_string())
            .collect(),
    );
    say(
        "plugins",
        settings
            .core
            .plugins
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
    );
    say("directories", format_paths(&settings.core.paths));
    say(
        "env",
        settings
            .core
            .env
            .iter()
            .map(|name| name.as_str().to_owned())
            .collect(),
    );
    say("mode", vec![settings.core.policy.mode().to_string()]);
    say("allow", settings.lists.allow.clone());
    say("ask", settings.lists.ask.clone());
    say("deny", settings.lists.deny.clone());
    if settings.lists.other_count > 0 {
        say("other rules", vec![settings.lists.other_count.to_string()]);
    }
    say(
        "hooks",
        settings
            .core
            .hooks
            .iter()
            .map(HookSettings::describe)
            .collect(),
    );
    say(
        "servers",
        settings
            .servers
            .iter()
            .map(|server| match &server.config {
                Ok(config) => format!("{} ({})", server.name, config.transport_name()),
                Err(reason) => format!("{}: {reason}", server.name),
            })
            .collect(),
    );
    let pools = settings.core.pools;
    say(
        "pools",
        [
            ("all", pools.all),
            ("network", pools.network),
            ("processes", pools.processes),
            ("agents", pools.agents),
            ("interactive", pools.interactive),
        ]
        .iter()
        .map(|(name, number)| format!("{name} {number}"))
        .collect(),
    );
    say(
        "timeout",
        settings
            .core
            .timeout
            .iter()
            .map(|time| format_duration(*time))
            .collect(),
    );
    say(
        "disabled tools",
        settings.core.disabled_tools.iter().cloned().collect(),
    );
    for list in &settings.core.only_tools {
        say("only tools", list.clone());
    }
    for (name, time) in &settings.core.tool_timeouts {
        say(&format!("timeout of {name}"), vec![format_duration(*time)]);
    }
    for (name, version) in &settings.core.tool_versions {
        say(&format!("version of {name}"), vec![version.to_string()]);
    }
    for test in &settings.core.ab_tests {
        let variants = test.variants.iter();
        let variants = variants.map(|variant| format!("{variant}, weight {}", variant.weight));
        say(&format!("compared for {}", test.tool), variants.collect());
    }
    for (name, own) in &settings.core.per_plugin {
        if let Some(paths) = &own.paths {
            let shown = if paths.is_empty() {
                vec!["none".to_owned()]
            } else {
                format_paths(paths)
            };
            say(&format!("directories of {name}"), shown);
        }
        if let Some(env) = &own.env {
            let names = env
                .iter()
                .map(|name| name.as_str().to_owned())
                .collect::<Vec<_>>();
            say(
                &format!("env of {name}"),
                if names.is_empty() {
                    vec!["none".to_owned()]
                } else {
                    names
                },
            );
        }
    }
    say(
        "cache",
        settings
            .core
            .host_paths
            .cache
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
    );
    say(
        "store",
        vec![
            settings
                .core
                .store
                .as_ref()
                .map_or_else(|| "none".to_owned(), |path| path.display().to_string()),
        ],
    );
    for warning in &settings.warnings {
        lines.push(format!("warning: {warning}"));
    }
    lines.push("ok".to_owned());
    lines.join("\n")
}

fn format_paths(paths: &[AllowedPath]) -> Vec<String> {
    paths
        .iter()
        .map(|path| {
            let exclude = &path.exclude;
            let secrets = exclude.defaults.then_some("secrets");
            let out: Vec<&str> = secrets
                .into_iter()
                .chain(exclude.patterns.iter().map(String::as_str))
                .collect();
            let without = match out.as_slice() {
                [] => String::new(),
                out => format!(", without {}", out.join(", ")),
            };
            format!(
                "{} = {} ({}{without})",
                path.guest,
                path.host.display(),
                path.access.as_str()
            )
        })
        .collect()
}
