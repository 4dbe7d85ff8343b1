//! The options of `#[tool(...)]`. Each becomes one call of the `Descriptor` builder.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, LitStr, Token, Type, parenthesized};

use crate::{args, nearest};

const EFFECTS: &[&str] = &["pure", "reads", "writes", "destroys"];
const OPTIONS: &[&str] = &[
    "pure",
    "reads",
    "writes",
    "destroys",
    "network",
    "interactive",
    "idempotent",
    "lenient",
    "streams",
    "background",
    "plain_text",
    "name",
    "display_name",
    "icon",
    "category",
    "kind",
    "version",
    "concurrency",
    "tags",
    "aliases",
    "requires",
    "depends_on",
    "timeout",
    "inactivity_timeout",
    "output",
    "example",
    "hooks",
    "sinks",
    "sources",
    "validate",
    "describe_call",
    "locations",
    "confirm",
    "render_permission",
    "render_result",
];

/// The options of a tool.
#[derive(Default)]
pub struct ToolOptions {
    /// The declared effect: `pure`, `reads`, `writes` or `destroys`.
    pub effect: Option<Ident>,
    pub name: Option<LitStr>,
    pub output: Option<Type>,
    /// Inputs of examples, to be checked against the parameters.
    pub examples: Vec<LitStr>,
    /// Functions that describe calls, by the name of the option.
    pub previews: Vec<(Ident, Expr)>,
    /// The other options as builder calls, in source order.
    pub calls: TokenStream,
    seen: Vec<String>,
}

impl ToolOptions {
    /// Parses `tokens` and continues after errors, so that all of them are reported.
    pub fn read(tokens: TokenStream, errors: &mut Vec<Error>) -> Self {
        let mut options = Self::default();
        let unparsed = errors.len();
        match Punctuated::<ToolOption, Token![,]>::parse_terminated.parse2(tokens) {
            Ok(list) => errors.extend(list.iter().filter_map(|option| options.add(option).err())),
            Err(error) => errors.push(error),
        }
        if options.effect.is_none() && errors.len() == unparsed {
            errors.push(Error::new(
                Span::call_site(),
                "declare the effect of the tool: `#[tool(pure)]`, `#[tool(reads)]`, `#[tool(writes)]` or \
                 `#[tool(destroys)]`",
            ));
        }
        options
    }

    fn add(&mut self, ToolOption { key, value }: &ToolOption) -> Result<(), Error> {
        let text = key.to_string();
        if text != "example" {
            if self.seen.contains(&text) {
                return Err(Error::new(
                    key.span(),
                    format!("`{key}` is given twice; remove one"),
                ));
            }
            self.seen.push(text.clone());
        }
        let value = || value.as_ref().ok_or_else(|| needs_value(key, "…"));
        let call = match text.as_str() {
            "pure" | "reads" | "writes" | "destroys" => {
                if let Some(first) = &self.effect {
                    let text = format!(
                        "`{first}` and `{key}` are mutually exclusive; keep the correct one"
                    );
                    return Err(Error::new(key.span(), text));
                }
                self.effect = Some(key.clone());
                return Ok(());
            }
            _ if is_flag(&text) => quote!(.#key()),
            "display_name" | "icon" | "category" | "kind" | "version" => {
                let text = args::text(value()?.expression(key)?)?;
                quote!(.#key(#text))
            }
            "concurrency" => {
                let text = args::text(value()?.expression(key)?)?;
                if !["parallel", "serial", "exclusive"].contains(&text.value().as_str()) {
                    return Err(Error::new(
                        text.span(),
                        "expected \"parallel\", \"serial\" or \"exclusive\"",
                    ));
                }
                quote!(.concurrency(#text))
            }
            "tags" | "aliases" | "requires" | "depends_on" | "sinks" | "sources" => {
                let texts = args::texts(value()?.expression(key)?)?;
                if text == "aliases" {
                    texts.iter().try_for_each(check_name)?;
                }
                quote!(.#key(&[#(#texts),*]))
            }
            "hooks" => hooks(&args::texts(value()?.expression(key)?)?)?,
            _ if is_preview(&text) => {
                let function = value()?.expression(key)?;
                self.previews.push((key.clone(), function.clone()));
                return Ok(());
            }
            "timeout" | "inactivity_timeout" => {
                let milliseconds = milliseconds(&args::text(value()?.expression(key)?)?)?;
                let method = format_ident!("{key}_ms");
                quote!(.#method(#milliseconds))
            }
            "name" => {
                let name = args::text(value()?.expression(key)?)?;
                check_name(&name)?;
                self.name = Some(name);
                return Ok(());
            }
            "output" => {
                let OptionValue::Type(ty) = value()? else {
                    return Err(needs_value(key, "Type"));
                };
                self.output = Some(ty.clone());
                return Ok(());
            }
            "example" => {
                let OptionValue::Example { description, input } = value()? else {
                    return Err(example_shape(key.span()));
                };
                self.examples.push(input.clone());
                quote!(.example(#description, #input))
            }
            _ => return Err(nearest::unknown(key, OPTIONS)),
        };
        self.calls.extend(call);
        Ok(())
    }
}

/// One option and its value.
struct ToolOption {
    key: Ident,
    value: Option<OptionValue>,
}

enum OptionValue {
    Expression(Expr),
    Type(Type),
    Example { description: LitStr, input: LitStr },
}

impl OptionValue {
    fn expression(&self, key: &Ident) -> Result<&Expr, Error> {
        match self {
            Self::Expression(expression) => Ok(expression),
            Self::Type(_) | Self::Example { .. } => Err(needs_value(key, "…")),
        }
    }
}

impl Parse for ToolOption {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key: Ident = input.call(Ident::parse_any)?;
        let text = key.to_string();
        // Checked here, because the tokens after an unknown option are arbitrary.
        if !OPTIONS.contains(&text.as_str()) {
            return Err(nearest::unknown(&key, OPTIONS));
        }
        let value = if text == "example" {
            Some(parse_example(&key, input)?)
        } else if input.peek(Token![=]) {
            let equals: Token![=] = input.parse()?;
            if EFFECTS.contains(&text.as_str()) || is_flag(&text) {
                return Err(Error::new(
                    equals.span(),
                    format!("`{key}` takes no value; write `{key}` alone"),
                ));
            }
            Some(if text == "output" {
                OptionValue::Type(input.parse()?)
            } else {
                OptionValue::Expression(input.parse()?)
            })
        } else {
            None
        };
        Ok(Self { key, value })
    }
}

fn hooks(names: &[LitStr]) -> Result<TokenStream, Error> {
    let known = ["pre-tool-use", "post-tool-use"];
    let Some(name) = names.iter().find(|name| !known.contains(&&*name.value())) else {
        return Ok(quote!(.hooks(&[#(#names),*])));
    };
    let option = name.value().replace('-', "_");
    let message = if is_preview(&option) {
        format!(
            "write the option `{option} = …`; `hooks` is for \"pre-tool-use\" and \"post-tool-use\""
        )
    } else {
        "expected \"pre-tool-use\" or \"post-tool-use\"".to_owned()
    };
    Err(Error::new(name.span(), message))
}

fn is_flag(key: &str) -> bool {
    matches!(
        key,
        "network"
            | "interactive"
            | "idempotent"
            | "lenient"
            | "streams"
            | "background"
            | "plain_text"
    )
}

fn is_preview(key: &str) -> bool {
    matches!(
        key,
        "validate"
            | "describe_call"
            | "locations"
            | "confirm"
            | "render_permission"
            | "render_result"
    )
}

/// `example(description = "…", input = r#"{…}"#)`
fn parse_example(key: &Ident, input: ParseStream<'_>) -> syn::Result<OptionValue> {
    if !input.peek(syn::token::Paren) {
        return Err(example_shape(key.span()));
    }
    let content;
    parenthesized!(content in input);
    let (mut description, mut json) = (None, None);
    while !content.is_empty() {
        let part: Ident = content.parse()?;
        content.parse::<Token![=]>()?;
        let text: LitStr = content.parse()?;
        match part.to_string().as_str() {
            "description" => description = Some(text),
            "input" => json = Some(text),
            _ => return Err(nearest::unknown(&part, &["description", "input"])),
        }
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
    }
    match (description, json) {
        (Some(description), Some(input)) => Ok(OptionValue::Example { description, input }),
        _ => Err(example_shape(key.span())),
    }
}

fn example_shape(span: Span) -> Error {
    Error::new(
        span,
        "an example has two parts: `example(description = \"…\", input = r#\"{…}\"#)`",
    )
}

fn needs_value(key: &Ident, shape: &str) -> Error {
    Error::new(
        key.span(),
        format!("`{key}` needs a value: write `{key} = {shape}`"),
    )
}

/// Checks a tool name, `[a-z][a-z0-9_]{0,63}`.
pub fn check_name(name: &LitStr) -> Result<(), Error> {
    let text = name.value();
    let plain = text
        .bytes()
        .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    if plain && text.len() <= 64 && text.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Ok(());
    }
    let rule = "a name has at most 64 lower-case letters, digits and `_`, and starts with a letter";
    Err(Error::new(
        name.span(),
        format!("`{text}` is not a valid tool name: {rule}"),
    ))
}

/// `500ms`, `60s` or `2m`, in milliseconds.
fn milliseconds(text: &LitStr) -> Result<u32, Error> {
    let value = text.value();
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &value[digits.len()..] {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    digits
        .parse::<u32>()
        .ok()
        .zip(unit)
        .and_then(|(number, unit)| number.checked_mul(unit))
        .ok_or_else(|| {
            Error::new(
                text.span(),
                format!(
                    "`{value}` is not a duration; write for example \"500ms\", \"60s\" or \"2m\""
                ),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::{LitStr, Span, check_name, milliseconds};

    #[test]
    fn times_have_a_unit() {
        let table = [
            ("500ms", Some(500)),
            ("60s", Some(60_000)),
            ("2m", Some(120_000)),
            ("60", None),
            ("1h", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(
                milliseconds(&LitStr::new(text, Span::call_site())).ok(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn names_are_those_of_the_contract() {
        let long = "a".repeat(65);
        let table = [
            ("read_file2", true),
            ("Read", false),
            ("2fa", false),
            ("", false),
            ("a-b", false),
            (&long, false),
        ];
        for (text, expected) in table {
            assert_eq!(
                check_name(&LitStr::new(text, Span::call_site())).is_ok(),
                expected,
                "{text}"
            );
        }
    }
}
