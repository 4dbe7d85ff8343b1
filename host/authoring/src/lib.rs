//! Projects of plugin authors: new projects from templates, their builds, expected results of calls, and reviews of plugins.
//! Nothing here runs a plugin.

mod bundle;
mod expected;
mod new_project;
mod project;
mod review;
mod toolchain;

pub use expected::{ExpectedCall, ExpectedError};
pub use new_project::{Language, NewProject, NewProjectError};
pub use project::{PROJECT_FILE, Project, ProjectError};
pub use review::{Finding, ReviewedPlugin, Severity, review};
pub use toolchain::{MissingTool, missing_tools};
