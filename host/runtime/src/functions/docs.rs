//! Doc comments of WIT in the custom section `package-docs` of a component: a version byte and JSON. wit-component writes
//! it into WIT packages only; `wit-docs-inject` copies it into components. `wit_parser::decoding::decode` refuses such
//! components, because the names in the section are those of the WIT package.

use serde_json::Value;

/// Name of the section.
pub const SECTION: &str = "package-docs";
/// Maximum size of the section; a larger one is ignored.
pub const MAX_SECTION: usize = 256 << 10;

#[derive(Default)]
pub struct Docs(Value);

impl Docs {
    /// An unknown version or invalid JSON is the same as no section.
    pub fn parse(section: &[u8]) -> Self {
        match section {
            [0 | 1, json @ ..] => Self(serde_json::from_slice(json).unwrap_or_default()),
            _ => Self::default(),
        }
    }

    /// Returns the doc comment of a function, in an interface or at the root.
    pub fn of_function(&self, interface: Option<&str>, name: &str) -> Option<&str> {
        let worlds = self.0.get("worlds").and_then(Value::as_object);
        let mut worlds = worlds.into_iter().flat_map(|worlds| worlds.values());
        match interface {
            Some(interface) => {
                let named = self.0.get("interfaces").and_then(|all| all.get(interface));
                let inline = || {
                    worlds.find_map(|world| {
                        let exports = world
                            .get("interface_exports")
                            .and_then(|all| all.get(interface));
                        exports.or_else(|| world.get("interfaces")?.get(interface))
                    })
                };
                text(named.or_else(inline)?.get("funcs")?.get(name)?)
            }
            None => worlds.find_map(|world| {
                let exported = world.get("func_exports").and_then(|all| all.get(name));
                text(exported.or_else(|| world.get("funcs")?.get(name))?)
            }),
        }
    }
}

/// Version 0 has a text, version 1 an object with the text and the stability.
fn text(docs: &Value) -> Option<&str> {
    let text = docs.as_str().or_else(|| docs.get("docs")?.as_str());
    text.map(str::trim).filter(|text| !text.is_empty())
}
