//! Limits of requests that a guest creates and the host keeps, whether they are sent or not. The number of such requests
//! is limited by `resources`; without limits of their size, a call could fill the memory of the host.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p2::bindings::http::types::{HostOutgoingRequest as _, Method};
use wasmtime_wasi_http::p2::types::HostOutgoingRequest;

use crate::state::State;

/// Longer than any registered method.
const MAX_METHOD_BYTES: usize = 64;
/// Maximum size of a host name with a port.
const MAX_AUTHORITY_BYTES: usize = 512;
const MAX_PATH_BYTES: usize = 8 << 10;
/// Maximum size of the headers of one request, as in `toolhost-net`.
pub const MAX_FIELD_BYTES: usize = 64 << 10;
/// Maximum size of one write to a body. Up to two of them wait to be sent.
pub const MAX_CHUNK_BYTES: usize = 64 << 10;

type Request = Resource<HostOutgoingRequest>;

/// How `wasi:http` refuses an invalid text.
const REFUSED: (Result<(), ()>,) = (Err(()),);

/// Replaces the functions of `wasi:http` that keep texts of any length.
pub fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    // The version of wasmtime-wasi-http. Guests with earlier ones get the same functions.
    let mut types = linker.instance("wasi:http/types@0.2.12")?;
    types.func_wrap(
        "[method]outgoing-request.set-method",
        |mut store: StoreContextMut<'_, State>, (request, method): (Request, Method)| {
            if matches!(&method, Method::Other(name) if name.len() > MAX_METHOD_BYTES) {
                return Ok(REFUSED);
            }
            Ok((store.data_mut().http().set_method(request, method)?,))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-path-with-query",
        |mut store: StoreContextMut<'_, State>, (request, path): (Request, Option<String>)| {
            if is_longer(path.as_ref(), MAX_PATH_BYTES) {
                return Ok(REFUSED);
            }
            Ok((store.data_mut().http().set_path_with_query(request, path)?,))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-authority",
        |mut store: StoreContextMut<'_, State>, (request, authority): (Request, Option<String>)| {
            if is_longer(authority.as_ref(), MAX_AUTHORITY_BYTES) {
                return Ok(REFUSED);
            }
            Ok((store.data_mut().http().set_authority(request, authority)?,))
        },
    )
}

fn is_longer(text: Option<&String>, limit: usize) -> bool {
    text.is_some_and(|text| text.len() > limit)
}
