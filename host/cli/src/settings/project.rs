//! The settings of the project in which the host was started: the table `[project."DIR"]` of the nearest directory.

use std::path::{Path, PathBuf};

use toolhost_contract::text;

use super::{FileContext, absolute};
use crate::config::{Config, PathEntry, ProjectTable, expand_variables};

/// What the table of a project adds to the general lists, with absolute paths.
#[derive(Debug, Default)]
pub struct Project {
    pub directory: Option<PathBuf>,
    pub plugins: Vec<PathBuf>,
    pub paths: Vec<(PathBuf, PathEntry)>,
}

/// Selects the table of the current directory or the nearest directory above it, and applies its hosts and its mode.
pub fn select(config: &mut Config, file: &FileContext<'_>) -> Result<Project, String> {
    let tables = std::mem::take(&mut config.project);
    if let Some(relative) = tables.keys().find(|name| !Path::new(name).is_absolute()) {
        let name = text::escape_line(relative, 200);
        let message = format!("project `{name}`: use an absolute path");
        return Err(file.locate(message));
    }
    let around = |(name, table): (String, ProjectTable)| {
        let directory = absolute(Path::new("/"), Path::new(&name));
        let contains = file.world.directory.starts_with(&directory);
        contains.then_some((directory, table))
    };
    let nearest = tables
        .into_iter()
        .filter_map(around)
        .max_by_key(|(directory, _)| directory.components().count());
    let Some((directory, table)) = nearest else {
        return Ok(Project::default());
    };
    let of_project = |path: &str| {
        let expanded = expand_variables(path, file.world.variable);
        let expanded = expanded.map_err(|error| file.locate(error))?;
        Ok(absolute(&directory, Path::new(&expanded)))
    };
    let plugins = table.plugins.iter().map(|path| of_project(path));
    let plugins = plugins.collect::<Result<_, String>>()?;
    let entries = table.allowed_paths.into_iter();
    let entries = entries.map(|entry| Ok((of_project(&entry.path)?, entry)));
    let paths = entries.collect::<Result<_, String>>()?;
    config.allowed_hosts.extend(table.allowed_hosts);
    config.policy.mode = table.mode.or(config.policy.mode);
    Ok(Project {
        directory: Some(directory),
        plugins,
        paths,
    })
}
