//! `#[arg(...)]`: options of tool parameters and of fields of `#[data]` structs.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, ExprArray, LitStr, Token, Type};

use crate::types::{self, Shape};
use crate::{docs, nearest};

const OPTIONS: &[&str] = &[
    "default", "min", "max", "min_len", "max_len", "pattern", "aliases", "rename",
];

/// A named input value.
pub struct Arg {
    pub ident: Ident,
    pub ty: Type,
    /// The name in the JSON input.
    pub name: String,
    /// An `Option`, which may be omitted and is then `None`.
    pub optional: bool,
    pub default: Option<TokenStream>,
    pub aliases: Vec<String>,
    doc: String,
    /// Builder calls that add the remaining options to the schema.
    limits: TokenStream,
}

impl Arg {
    /// Parses the attributes of `ident: ty`; `owner_kind` is "parameter" or "field".
    pub fn read(
        owner_kind: &str,
        ident: &Ident,
        ty: &Type,
        attributes: &[Attribute],
    ) -> Result<Self, Error> {
        let inner = types::option_of(ty);
        let mut arg = Self {
            ident: ident.clone(),
            ty: ty.clone(),
            name: ident.unraw().to_string(),
            optional: inner.is_some(),
            default: None,
            aliases: Vec::new(),
            doc: docs::required(attributes, owner_kind, ident)?,
            limits: TokenStream::new(),
        };
        for attribute in attributes
            .iter()
            .filter(|attribute| attribute.path().is_ident("arg"))
        {
            for option in
                attribute.parse_args_with(Punctuated::<ArgOption, Token![,]>::parse_terminated)?
            {
                arg.add(&option, inner.unwrap_or(ty))?;
            }
        }
        Ok(arg)
    }

    /// Whether the input must contain it.
    pub fn required(&self) -> bool {
        !self.optional && self.default.is_none()
    }

    /// The call that adds this argument to the schema of its object.
    pub fn schema_call(&self) -> TokenStream {
        let Self {
            name,
            ty,
            doc,
            limits,
            ..
        } = self;
        let method = if self.required() {
            format_ident!("required")
        } else {
            format_ident!("optional")
        };
        let default = self
            .default
            .as_ref()
            .map(|default| quote!(.default(#default)));
        let aliases = (!self.aliases.is_empty()).then(|| {
            let aliases = &self.aliases;
            quote!(.aliases(&[#(#aliases),*]))
        });
        quote! {
            .#method(#name, ::toolhost_sdk::schema::Property::of::<#ty>(#doc) #default #limits #aliases)
        }
    }

    fn add(&mut self, ArgOption { key, value }: &ArgOption, ty: &Type) -> Result<(), Error> {
        let shape = types::shape(ty);
        let only_for = |fits: bool, advice: &str| {
            if fits {
                Ok(())
            } else {
                Err(Error::new(key.span(), format!("`{key}` {advice}")))
            }
        };
        match key.to_string().as_str() {
            "default" => self.default = Some(typed(value, ty, shape)),
            "min" | "max" => {
                only_for(
                    matches!(shape, Shape::Number | Shape::Other),
                    "is for numbers; for the length of a string or list use `min_len` or `max_len`",
                )?;
                let method = format_ident!("{key}");
                self.limits.extend(quote!(.#method(#value)));
            }
            "min_len" | "max_len" => {
                only_for(
                    matches!(shape, Shape::Text | Shape::List | Shape::Other),
                    "is for strings and lists; for a number use `min` or `max`",
                )?;
                let method = format_ident!("{key}");
                self.limits.extend(quote!(.#method(#value)));
            }
            "pattern" => {
                only_for(
                    matches!(shape, Shape::Text | Shape::Other),
                    "is for strings",
                )?;
                let pattern = text(value)?;
                self.limits.extend(quote!(.pattern(#pattern)));
            }
            "aliases" => self.aliases = texts(value)?.iter().map(LitStr::value).collect(),
            "rename" => self.name = text(value)?.value(),
            _ => return Err(nearest::unknown(key, OPTIONS)),
        }
        Ok(())
    }
}

/// A default, as JSON. For plain types the compiler checks the default against the type, so that an error points to the
/// author's own code.
fn typed(value: &Expr, ty: &Type, shape: Shape) -> TokenStream {
    match shape {
        Shape::Number | Shape::Bool => quote!(::toolhost_sdk::schema::json_of::<#ty>(#value)),
        Shape::Text => quote!(::toolhost_sdk::schema::json_of::<&str>(#value)),
        Shape::List | Shape::Map | Shape::Other => match value {
            // Its type cannot be inferred.
            Expr::Array(ExprArray { elems, .. }) if elems.is_empty() => {
                quote!(::toolhost_sdk::schema::json_of::<[(); 0]>([]))
            }
            value => quote!(::toolhost_sdk::schema::json_of(#value)),
        },
    }
}

/// `key = value`
struct ArgOption {
    key: Ident,
    value: Expr,
}

impl Parse for ArgOption {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key: Ident = input.call(Ident::parse_any)?;
        if !OPTIONS.contains(&key.to_string().as_str()) {
            return Err(nearest::unknown(&key, OPTIONS));
        }
        if !input.peek(Token![=]) {
            return Err(Error::new(
                key.span(),
                format!("`{key}` needs a value: write `{key} = …`"),
            ));
        }
        input.parse::<Token![=]>()?;
        Ok(Self {
            key,
            value: input.parse()?,
        })
    }
}

/// A string literal.
pub fn text(value: &Expr) -> Result<LitStr, Error> {
    match value {
        Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(text),
            ..
        }) => Ok(text.clone()),
        other => Err(Error::new_spanned(other, "expected a string literal")),
    }
}

/// A list of string literals.
pub fn texts(value: &Expr) -> Result<Vec<LitStr>, Error> {
    match value {
        Expr::Array(ExprArray { elems, .. }) => elems.iter().map(text).collect(),
        other => Err(Error::new_spanned(
            other,
            "expected a list of strings: `[\"one\", \"two\"]`",
        )),
    }
}
