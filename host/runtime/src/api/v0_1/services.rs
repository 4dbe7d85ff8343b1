//! Service interfaces that a call can use, one file each: checks the call's capability and delegates to its `Services`.

mod agents;
mod convert;
mod process;
mod resources;
mod session;
mod tools;
mod user;

use std::sync::Arc;

use serde_json::Value;
use toolhost_contract::exact_integers::check_integers;
use toolhost_contract::{Failure, Services, value_counter};
use wasmtime::component::HasSelf;

use self::convert::{failure, invalid_json};
use super::types;
use crate::state::State;

mod bindings {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1",
        world: "services",
        imports: {
            "toolhost:plugin/user": async,
            "toolhost:plugin/agents.run": async,
            "toolhost:plugin/tools.call": async,
            "toolhost:plugin/tools.wait": async,
            "toolhost:plugin/resources": async,
            "toolhost:plugin/process": async,
        },
        with: {
            "toolhost:plugin/types@0.1.0": crate::api::v0_1::toolhost::plugin::types,
        },
    });
}

use bindings::toolhost::plugin as wit;

/// Maximum size of one JSON argument, in bytes.
const MAX_JSON: usize = 1 << 20;

/// Functions of the service interfaces, to detect components built against a later version.
pub const FUNCTIONS: [(&str, &[&str]); 6] = [
    ("session", session::FUNCTIONS),
    ("process", process::FUNCTIONS),
    ("user", user::FUNCTIONS),
    ("agents", agents::FUNCTIONS),
    ("tools", tools::FUNCTIONS),
    ("resources", resources::FUNCTIONS),
];

pub fn add_to_linker(linker: &mut wasmtime::component::Linker<State>) -> wasmtime::Result<()> {
    wit::process::add_to_linker::<State, HasSelf<State>>(linker, State::for_host_call)?;
    wit::session::add_to_linker::<State, HasSelf<State>>(linker, State::for_host_call)?;
    wit::user::add_to_linker::<State, HasSelf<State>>(linker, State::for_host_call)?;
    wit::agents::add_to_linker::<State, HasSelf<State>>(linker, State::for_host_call)?;
    wit::tools::add_to_linker::<State, HasSelf<State>>(linker, State::for_host_call)?;
    wit::resources::add_to_linker::<State, HasSelf<State>>(linker, State::for_host_call)?;
    Ok(())
}

impl State {
    /// Like [`Self::services`], for results that depend on state outside the read set.
    fn untracked_services(
        &self,
        allowed: bool,
        capability: &str,
    ) -> Result<Arc<dyn Services>, types::Failure> {
        self.sink.mark_untracked_dependency();
        self.services(allowed, capability)
    }

    /// The services of the call, if it has the capability.
    fn services(
        &self,
        allowed: bool,
        capability: &str,
    ) -> Result<Arc<dyn Services>, types::Failure> {
        let services = allowed.then(|| self.sink.services()).flatten();
        services.ok_or_else(|| {
            failure(Failure {
                recommendations: vec![format!(
                    "the plugin's manifest must request `{capability}`, the tool must include it in `requires` if that is set, \
                     and the host must offer it"
                )],
                ..Failure::new(
                    "service_not_granted",
                    format!("this call was not granted `{capability}`"),
                )
            })
        })
    }
}

fn json(text: &str) -> Result<Value, types::Failure> {
    if text.len() > MAX_JSON {
        let size = text.len();
        return Err(failure(Failure::new(
            "invalid_json",
            format!("JSON of {size} bytes; the limit is {MAX_JSON}"),
        )));
    }
    if !value_counter::are_within_limit([text]) {
        let limit = value_counter::MAX_VALUES;
        return Err(failure(Failure::new(
            "invalid_json",
            format!("JSON of more than {limit} values"),
        )));
    }
    check_integers(text.as_bytes())
        .map_err(|error| failure(Failure::new("invalid_json", error.to_string())))?;
    serde_json::from_str(text).map_err(|error| invalid_json(&error))
}
