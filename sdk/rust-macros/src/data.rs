//! `#[data]`: serde implementations and a JSON Schema for structs and enums, from their doc comments.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Error, Field, Fields, Generics, Item, ItemEnum, ItemStruct};

use crate::args::Arg;
use crate::docs;

/// Expands the attribute.
pub fn expand(options: &TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Vec::new();
    if !options.is_empty() {
        errors.push(Error::new_spanned(options, "`#[data]` takes no options"));
    }
    let expansion = match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Struct(item)) => expand_struct(item, &mut errors),
        Ok(Item::Enum(item)) => expand_enum(&item, &mut errors),
        Ok(_) | Err(_) => {
            errors.push(Error::new_spanned(
                &item,
                "`#[data]` requires a struct or an enum",
            ));
            item
        }
    };
    let errors = errors.iter().map(Error::to_compile_error);
    quote!(#(#errors)* #expansion)
}

fn expand_struct(mut item: ItemStruct, errors: &mut Vec<Error>) -> TokenStream {
    check_common(&item.attrs, &item.generics, errors);
    if !matches!(item.fields, Fields::Named(_)) {
        errors.push(Error::new_spanned(
            &item.ident,
            "a `#[data]` struct has named fields: `struct Name { … }`",
        ));
    }
    let ident = item.ident.clone();
    let mut args = Vec::new();
    for field in &mut item.fields {
        match read_field(&ident, field) {
            Ok(arg) => args.push(arg),
            Err(error) => errors.push(error),
        }
        field.attrs.retain(|attribute| {
            !attribute.path().is_ident("arg") && !attribute.path().is_ident("serde")
        });
    }
    if !item.generics.params.is_empty() {
        return item.into_token_stream();
    }
    // With an error, the derived traits prevent follow-up errors.
    if errors.is_empty() {
        for (field, arg) in item.fields.iter_mut().zip(&args) {
            field.attrs.extend(serde_attributes(&ident, arg));
        }
    }
    let derives = derives();
    let description = docs::read(&item.attrs).map(|text| quote!(.description(#text)));
    let properties = args.iter().map(Arg::schema_call);
    let defaults: Vec<TokenStream> = args.iter().filter_map(default_function).collect();
    let defaults = (!defaults.is_empty()).then(|| {
        quote! {
            #[doc(hidden)]
            impl #ident {
                #(#defaults)*
            }
        }
    });
    let schema =
        quote!(::toolhost_sdk::schema::Object::new() #description #(#properties)* .finish());
    let impls = impls(&ident, &schema);
    quote! {
        #derives
        #item

        #defaults

        #impls
    }
}

fn expand_enum(item: &ItemEnum, errors: &mut Vec<Error>) -> TokenStream {
    check_common(&item.attrs, &item.generics, errors);
    if !item.generics.params.is_empty() {
        return item.into_token_stream();
    }
    let mut values = Vec::new();
    for variant in &item.variants {
        if !matches!(variant.fields, Fields::Unit) {
            let text =
                "a variant of a `#[data]` enum has no fields; use a struct with optional fields";
            errors.push(Error::new_spanned(&variant.fields, text));
        }
        check_serde(&variant.attrs, errors);
        let name = snake_case(&variant.ident.unraw().to_string());
        let meaning = docs::read(&variant.attrs).unwrap_or_default();
        values.push(quote!((#name, #meaning)));
    }
    let description = docs::read(&item.attrs).unwrap_or_default();
    let schema = quote!(::toolhost_sdk::schema::enum_schema(#description, &[#(#values),*]));
    let derives = derives();
    let impls = impls(&item.ident, &schema);
    quote! {
        #derives
        #[serde(rename_all = "snake_case")]
        #item

        #impls
    }
}

fn derives() -> TokenStream {
    quote! {
        #[derive(::toolhost_sdk::serde::Serialize, ::toolhost_sdk::serde::Deserialize)]
        #[serde(crate = "::toolhost_sdk::serde")]
    }
}

fn impls(ident: &Ident, schema: &TokenStream) -> TokenStream {
    quote! {
        impl ::toolhost_sdk::Schema for #ident {
            fn schema() -> ::toolhost_sdk::Value {
                #schema
            }
        }

        impl ::toolhost_sdk::IntoOutcome for #ident {
            fn into_outcome(self) -> ::toolhost_sdk::Result<::toolhost_sdk::Outcome> {
                ::toolhost_sdk::schema::outcome_of(&self)
            }

            fn output_schema() -> ::std::option::Option<::toolhost_sdk::Value> {
                ::std::option::Option::Some(<Self as ::toolhost_sdk::Schema>::schema())
            }
        }
    }
}

fn read_field(owner: &Ident, field: &Field) -> Result<Arg, Error> {
    let Some(ident) = &field.ident else {
        return Err(Error::new_spanned(
            field,
            "a field of a `#[data]` struct has a name",
        ));
    };
    let mut errors = Vec::new();
    check_serde(&field.attrs, &mut errors);
    if let Some(error) = errors.pop() {
        return Err(error);
    }
    // A schema is expanded completely, so a recursive type would not terminate.
    if mentions(field.ty.to_token_stream(), owner) {
        let text =
            format!("a `#[data]` type cannot contain itself; use `Value` for the inner `{owner}`");
        return Err(Error::new_spanned(&field.ty, text));
    }
    Arg::read("field", ident, &field.ty, &field.attrs)
}

/// Makes serde consistent with the schema.
fn serde_attributes(owner: &Ident, arg: &Arg) -> Vec<Attribute> {
    let mut attributes: Vec<Attribute> = Vec::new();
    let name = &arg.name;
    if arg.ident.unraw() != name {
        attributes.push(syn::parse_quote!(#[serde(rename = #name)]));
    }
    for alias in &arg.aliases {
        attributes.push(syn::parse_quote!(#[serde(alias = #alias)]));
    }
    if arg.default.is_some() {
        let path = format!("{owner}::{}", default_name(arg));
        attributes.push(syn::parse_quote!(#[serde(default = #path)]));
    }
    // The schema of an `Option<T>` is that of `T`, which does not include `null`.
    if arg.optional {
        attributes.push(
            syn::parse_quote!(#[serde(skip_serializing_if = "::std::option::Option::is_none")]),
        );
    }
    attributes
}

fn default_function(arg: &Arg) -> Option<TokenStream> {
    let default = arg.default.as_ref()?;
    let name = default_name(arg);
    let ty = &arg.ty;
    Some(quote! {
        fn #name() -> #ty {
            ::toolhost_sdk::schema::value_of(#default)
        }
    })
}

fn default_name(arg: &Arg) -> Ident {
    format_ident!("__default_{}", arg.ident.unraw())
}

fn check_common(attributes: &[Attribute], generics: &Generics, errors: &mut Vec<Error>) {
    if !generics.params.is_empty() {
        let text = "a `#[data]` type cannot be generic, because it has a single schema";
        errors.push(Error::new_spanned(generics, text));
    }
    check_serde(attributes, errors);
}

/// Serde's attributes would change the JSON without changing the schema.
fn check_serde(attributes: &[Attribute], errors: &mut Vec<Error>) {
    for attribute in attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("serde"))
    {
        let text = "`#[data]` generates serde's attributes; use `#[arg(rename, aliases, default)]`";
        errors.push(Error::new_spanned(attribute, text));
    }
}

fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// Like serde's `rename_all = "snake_case"`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (position, letter) in name.char_indices() {
        if position > 0 && letter.is_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
