//! The environment that plugins get to describe their tools.

use toolhost_contract::Mode;
use toolhost_formats::profile::Profile;

/// Facts on which descriptions of tools can depend; docs/plugin-contract.md lists them.
pub fn describe(mode: Mode, profile: Profile) -> Vec<(String, String)> {
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let facts = [
        ("platform", std::env::consts::OS),
        ("architecture", std::env::consts::ARCH),
        ("workspace", "/workspace"),
        ("date", date.as_str()),
        ("mode", mode.as_str()),
        ("profile", profile.as_str()),
    ];
    facts
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// Environments in which a description of tools must be the same to be stored in the plugin file.
pub fn samples() -> Vec<Vec<(String, String)>> {
    let modes = Mode::ALL.map(|mode| describe(mode, Profile::default()));
    let profiles = Profile::ALL.map(|profile| describe(Mode::default(), profile));
    let mut samples: Vec<_> = modes.into_iter().chain(profiles).collect();
    for (name, value) in [
        ("architecture", "x86_64"),
        ("architecture", "aarch64"),
        ("date", "1970-01-01"),
        ("platform", "other"),
        ("workspace", "/other"),
    ] {
        let mut environment = describe(Mode::default(), Profile::default());
        for fact in environment.iter_mut().filter(|(fact, _)| fact == name) {
            value.clone_into(&mut fact.1);
        }
        samples.push(environment);
    }
    samples
}
