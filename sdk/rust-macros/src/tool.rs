//! `#[tool]`: keeps the function and adds a type of the same name that implements `Tool`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use serde_json::{Map, Value};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, FnArg, ItemFn, LitStr, Pat, PatIdent, PatType, ReturnType, Type, TypeReference};

use crate::args::Arg;
use crate::tool_options::{self, ToolOptions};
use crate::{docs, types};

/// Expands the attribute. The function is kept even after an error, to avoid follow-up errors about a missing name.
pub fn expand(options: TokenStream, item: &TokenStream) -> TokenStream {
    let mut function: ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error =
                Error::new(error.span(), "`#[tool]` requires a function").into_compile_error();
            return quote!(#error #item);
        }
    };
    let mut errors = Vec::new();
    let options = ToolOptions::read(options, &mut errors);
    check_signature(&function, &mut errors);
    let parameters = Parameters::read(&function, &mut errors);
    errors.extend(
        options
            .examples
            .iter()
            .filter_map(|example| check_example(example, &parameters.args).err()),
    );
    let description = docs::required(&function.attrs, "tool", &function.sig.ident);
    let name = name(&options, &function.sig.ident);
    strip_parameters(&mut function);

    let body = match (
        description,
        name,
        options.effect.as_ref(),
        errors.is_empty(),
    ) {
        (Ok(description), Ok(name), Some(caution), true) => body(
            &function,
            &name,
            &description,
            caution,
            &options,
            &parameters,
        ),
        (description, name, _, _) => {
            errors.extend(description.err());
            errors.extend(name.err());
            placeholder(&function.sig.ident)
        }
    };
    let errors = errors.iter().map(Error::to_compile_error);
    if function.sig.receiver().is_some() {
        // Inside an `impl`, a struct and another `impl` would only cause follow-up errors.
        return quote!(#(#errors)* #function);
    }
    let visibility = &function.vis;
    let ident = &function.sig.ident;
    // A struct with braces is only in the type namespace, so it can coexist with the function.
    quote! {
        #(#errors)*

        #[allow(
            clippy::fn_params_excessive_bools,
            clippy::needless_pass_by_value,
            clippy::too_many_arguments,
            clippy::unnecessary_wraps
        )]
        #function

        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #visibility struct #ident {}

        #body
    }
}

fn body(
    function: &ItemFn,
    name: &LitStr,
    description: &str,
    caution: &Ident,
    options: &ToolOptions,
    parameters: &Parameters,
) -> TokenStream {
    let ident = &function.sig.ident;
    let calls = &options.calls;
    let properties = parameters.args.iter().map(Arg::schema_call);
    let returned = match &function.sig.output {
        ReturnType::Type(_, ty) => quote!(#ty),
        ReturnType::Default => quote!(()),
    };
    let (output, into_outcome) = match &options.output {
        Some(ty) => (quote!(.output::<#ty>()), quote!(into_structured_outcome)),
        None => (quote!(.returns::<#returned>()), quote!(into_outcome)),
    };
    let takes = parameters.args.iter().map(
        |Arg {
             name,
             default,
             optional,
             ..
         }| match default {
            Some(default) => quote!(arguments.take_or(#name, || #default)?),
            None if *optional => quote!(arguments.take_optional(#name)?),
            None => quote!(arguments.take(#name)?),
        },
    );
    let takes: Vec<TokenStream> = takes.collect();
    let context = parameters.context.then(|| quote!(cx,));
    let arguments = if parameters.args.is_empty() {
        quote!(_)
    } else {
        quote!(mut arguments)
    };
    let cx = if parameters.context {
        quote!(cx)
    } else {
        quote!(_)
    };
    let previews = previews(options, &cx, &arguments, &quote!(#context #(#takes,)*));
    quote! {
        impl ::toolhost_sdk::Tool for #ident {
            fn name() -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed(#name)
            }

            fn descriptor() -> ::toolhost_sdk::Descriptor {
                let input = ::toolhost_sdk::schema::Object::new() #(#properties)*;
                ::toolhost_sdk::Descriptor::new(#name, #description)
                    .#caution()
                    .input_schema(input.finish())
                    #output
                    #calls
            }

            fn call(
                #cx: &::toolhost_sdk::Context,
                input: ::toolhost_sdk::Value,
            ) -> ::toolhost_sdk::Result<::toolhost_sdk::Outcome> {
                let #arguments = ::toolhost_sdk::Arguments::new(input)?;
                <#returned as ::toolhost_sdk::IntoOutcome>::#into_outcome(#ident(#context #(#takes),*))
            }

            #previews
        }
    }
}

/// The functions that describe calls. They take the parameters of the tool.
fn previews(
    options: &ToolOptions,
    cx: &TokenStream,
    arguments: &TokenStream,
    takes: &TokenStream,
) -> Option<TokenStream> {
    let members = options.previews.iter().map(|(member, function)| {
        let blocks = || quote!(::std::vec::Vec<::toolhost_sdk::Display>);
        let (returned, outcome) = match member.to_string().as_str() {
            "validate" => (quote!(::toolhost_sdk::Result<()>), None),
            "describe_call" => (quote!(::std::string::String), None),
            "locations" => (quote!(::std::vec::Vec<::toolhost_sdk::Location>), None),
            "confirm" => (quote!(::std::option::Option<::std::string::String>), None),
            "render_result" => (blocks(), Some(quote!(outcome))),
            _ => (blocks(), None),
        };
        let comma = outcome.as_ref().map(|_| quote!(,));
        // Located at the function, so that an error about its type points to it; lints still see a macro.
        let span = function.span().resolved_at(Span::call_site());
        let mut value = quote_spanned!(span=> #function(#takes #outcome));
        if member == "describe_call" {
            value = quote_spanned!(span=> ::std::convert::Into::into(#value));
        }
        let result = if member == "validate" {
            quote!(value)
        } else {
            quote!(::std::result::Result::Ok(value))
        };
        quote! {
            #member: ::std::option::Option::Some(|#cx, input #comma #outcome| {
                let #arguments = ::toolhost_sdk::Arguments::new(input)?;
                let value: #returned = #value;
                #result
            })
        }
    });
    let others = (options.previews.len() < 6).then(|| quote!(..::toolhost_sdk::Previews::NONE));
    (!options.previews.is_empty()).then(|| {
        quote! {
            fn previews() -> ::toolhost_sdk::Previews {
                ::toolhost_sdk::Previews {
                    #(#members,)*
                    #others
                }
            }
        }
    })
}

/// A placeholder for a tool with errors, so that `export_tools!` reports no further ones.
fn placeholder(ident: &Ident) -> TokenStream {
    quote! {
        impl ::toolhost_sdk::Tool for #ident {
            fn descriptor() -> ::toolhost_sdk::Descriptor {
                ::core::unreachable!()
            }

            fn call(
                _: &::toolhost_sdk::Context,
                _: ::toolhost_sdk::Value,
            ) -> ::toolhost_sdk::Result<::toolhost_sdk::Outcome> {
                ::core::unreachable!()
            }
        }
    }
}

struct Parameters {
    context: bool,
    args: Vec<Arg>,
}

impl Parameters {
    fn read(function: &ItemFn, errors: &mut Vec<Error>) -> Self {
        let mut parameters = Self {
            context: false,
            args: Vec::new(),
        };
        for (position, input) in function.sig.inputs.iter().enumerate() {
            match parameter(input, position) {
                Ok(Some(arg)) => parameters.args.push(arg),
                Ok(None) => parameters.context = true,
                Err(error) => errors.push(error),
            }
        }
        parameters
    }
}

/// One parameter, or `None` for the context.
fn parameter(input: &FnArg, position: usize) -> Result<Option<Arg>, Error> {
    let PatType { attrs, pat, ty, .. } = match input {
        FnArg::Typed(typed) => typed,
        FnArg::Receiver(receiver) => {
            let text =
                "a tool is a free function without `self`; implement `Tool` by hand for methods";
            return Err(Error::new_spanned(receiver, text));
        }
    };
    if is_context(ty) {
        let borrowed = matches!(
            &**ty,
            Type::Reference(TypeReference {
                mutability: None,
                ..
            })
        );
        return match (position, borrowed) {
            (0, true) => Ok(None),
            (0, false) => Err(Error::new_spanned(
                ty,
                "a tool takes its context by reference: write `&Context`",
            )),
            _ => Err(Error::new_spanned(
                ty,
                "the context must be the first parameter",
            )),
        };
    }
    match &**pat {
        Pat::Ident(PatIdent {
            by_ref: None,
            subpat: None,
            ident,
            ..
        }) => {
            if let Type::Reference(reference) = &**ty {
                let text = "a parameter must be owned, because it is deserialized: write `String`, `Vec<T>` or a `#[data]` type";
                return Err(Error::new_spanned(reference, text));
            }
            Arg::read("parameter", ident, ty, attrs).map(Some)
        }
        other => Err(Error::new_spanned(
            other,
            "a parameter must have a plain name, which is its name in the schema",
        )),
    }
}

fn is_context(ty: &Type) -> bool {
    let inner = match ty {
        Type::Reference(reference) => &reference.elem,
        other => other,
    };
    types::last_segment(inner).as_deref() == Some("Context")
}

fn check_signature(function: &ItemFn, errors: &mut Vec<Error>) {
    let signature = &function.sig;
    if let Some(keyword) = &signature.asyncness {
        errors.push(Error::new(
            keyword.span(),
            "a tool cannot be `async`; the host runs calls concurrently",
        ));
    }
    if let Some(keyword) = &signature.unsafety {
        errors.push(Error::new(keyword.span(), "a tool cannot be `unsafe`"));
    }
    if !signature.generics.params.is_empty() {
        let text = "a tool cannot be generic: its schema needs the type of each parameter";
        errors.push(Error::new_spanned(&signature.generics, text));
    }
    if let Some(variadic) = &signature.variadic {
        errors.push(Error::new_spanned(
            variadic,
            "a tool has a fixed list of parameters",
        ));
    }
}

fn name(options: &ToolOptions, ident: &Ident) -> Result<LitStr, Error> {
    if let Some(name) = &options.name {
        return Ok(name.clone());
    }
    let name = LitStr::new(&ident.unraw().to_string(), ident.span());
    tool_options::check_name(&name)?;
    Ok(name)
}

/// Checks the parameter names of an example input.
fn check_example(input: &LitStr, args: &[Arg]) -> Result<(), Error> {
    let error = |text: String| Error::new(input.span(), text);
    let object: Map<String, Value> = serde_json::from_str(&input.value()).map_err(|reason| {
        error(format!(
            "the input of an example must be a JSON object: {reason}"
        ))
    })?;
    if let Some(name) = object
        .keys()
        .find(|name| !args.iter().any(|arg| arg.name == **name))
    {
        return Err(error(format!(
            "the example names `{name}`, which is not a parameter"
        )));
    }
    if let Some(arg) = args
        .iter()
        .find(|arg| arg.required() && !object.contains_key(&arg.name))
    {
        return Err(error(format!(
            "the example lacks `{}`, which is required",
            arg.name
        )));
    }
    Ok(())
}

/// Removes attributes that rustc does not allow on parameters.
fn strip_parameters(function: &mut ItemFn) {
    for input in &mut function.sig.inputs {
        if let FnArg::Typed(typed) = input {
            typed.attrs.retain(|attribute| {
                !attribute.path().is_ident("doc") && !attribute.path().is_ident("arg")
            });
        }
    }
}
