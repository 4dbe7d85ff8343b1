//! `host new`: creates the project of a plugin.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use toolhost_authoring::{Language, NewProject, Project, missing_tools};
use toolhost_contract::PluginName;

use crate::exit::{CliError, Exit, OrExit as _};
use crate::terminal::{note, print};

#[derive(Debug, Args)]
pub struct NewArgs {
    /// Name of the plugin: lower-case letters, digits and hyphens
    pub name: String,

    /// Language of the plugin
    #[arg(long, value_name = "LANGUAGE", value_parser = language_parser())]
    pub lang: Language,

    /// Directory of the project [default: NAME in the current directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

fn language_parser() -> impl TypedValueParser<Value = Language> {
    PossibleValuesParser::new(Language::ALL.map(Language::as_str)).map(|name| {
        let language = Language::ALL
            .into_iter()
            .find(|language| language.as_str() == name);
        language.expect("the parser accepts these names only")
    })
}

pub fn new(args: NewArgs) -> Result<Exit, CliError> {
    let name = PluginName::parse(&args.name).or_exit(Exit::Usage)?;
    let directory = args.dir.unwrap_or_else(|| PathBuf::from(name.as_str()));
    let project = NewProject {
        name,
        language: args.lang,
        directory,
    };
    project.create().or_exit(Exit::Usage)?;
    let built = Project::read(&project.directory).or_exit(Exit::Internal)?;
    for missing in missing_tools(&built.requires, std::env::var_os("PATH").as_deref()) {
        note(&format!("warning: {missing}"));
    }
    let directory = project.directory.display();
    print(&directory.to_string()).or_exit(Exit::Internal)?;
    note(&format!("next: cd {directory} && host dev"));
    Ok(Exit::Ok)
}
