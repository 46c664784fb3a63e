//! `#[derive(Job)]`: what `windlass::Job` asks for, from attributes. Use it as `windlass::Job`.
//!
//! What is never known here: a store, a worker, the values of a job.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Expr, LitStr, Type, parse_macro_input};

/// Implements `windlass::Job`; see there for what each attribute means.
///
/// `#[job(kind = "email.send", queue = "mail", output = MessageId, priority = 3, max_retries = 5, timeout =
/// Duration::from_secs(30), backoff = Backoff::default(), unique = UniquePolicy::Active, version = 2, upgrade = function)]`:
/// only `kind` is required. Everything but `kind`, `queue` and `output` is an expression.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    job(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// What stands in `#[job(…)]`.
#[derive(Default)]
struct Attributes {
    kind: Option<LitStr>,
    output: Option<Type>,
    items: TokenStream,
}

fn job(input: &DeriveInput) -> syn::Result<TokenStream> {
    let attributes = attributes(input)?;
    let missing = "name the job: #[job(kind = \"email.send\")]";
    let kind = attributes.kind.ok_or_else(|| syn::Error::new_spanned(&input.ident, missing))?;
    let output = attributes.output.map_or_else(|| quote!(()), |output| quote!(#output));
    let (name, items) = (&input.ident, attributes.items);
    let (generics, arguments, conditions) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics ::windlass::Job for #name #arguments #conditions {
            const KIND: &'static str = #kind;
            type Output = #output;
            #items
        }
    })
}

fn attributes(input: &DeriveInput) -> syn::Result<Attributes> {
    let mut found = Attributes::default();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("job")) {
        attribute.parse_nested_meta(|meta| {
            let word = meta.path.require_ident()?.to_string();
            let value = meta.value()?;
            match word.as_str() {
                "kind" => found.kind = Some(value.parse()?),
                "output" => found.output = Some(value.parse()?),
                _ => found.items.extend(item(&meta, &word, value.parse()?)?),
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// One default of the kind, as an item of the trait.
fn item(meta: &syn::meta::ParseNestedMeta<'_>, word: &str, value: Expr) -> syn::Result<TokenStream> {
    let duration = quote!(::std::time::Duration);
    Ok(match word {
        "queue" => quote!(const QUEUE: &'static str = #value;),
        "priority" => quote!(const PRIORITY: i32 = #value;),
        "version" => quote!(const VERSION: u32 = #value;),
        "max_retries" => {
            quote!(const MAX_RETRIES: ::std::option::Option<u32> = ::std::option::Option::Some(#value);)
        }
        "timeout" => {
            quote!(const TIMEOUT: ::std::option::Option<#duration> = ::std::option::Option::Some(#value);)
        }
        "backoff" => {
            quote!(fn backoff() -> ::std::option::Option<::windlass::Backoff> { ::std::option::Option::Some(#value) })
        }
        "unique" => quote! {
            const UNIQUE: ::std::option::Option<::windlass::UniquePolicy> = ::std::option::Option::Some(#value);
        },
        "upgrade" => quote! {
            fn upgrade(
                from: u32,
                value: ::windlass::serde_json::Value,
            ) -> ::std::result::Result<::windlass::serde_json::Value, ::windlass::HandlerError> {
                #value(from, value)
            }
        },
        _ => {
            let known =
                "kind, queue, output, priority, max_retries, timeout, backoff, unique, version, upgrade";
            return Err(meta.error(format!("unknown attribute `{word}`: there are {known}")));
        }
    })
}
