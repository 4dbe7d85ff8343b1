//! `readFile`, `writeFile` and `listFiles`: the directories of the call, for scripts.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use boa_engine::object::ObjectInitializer;
use boa_engine::object::builtins::JsArray;
use boa_engine::property::Attribute;
use boa_engine::{
    Context, JsArgs as _, JsError, JsNativeError, JsResult, JsString, JsValue, NativeFunction,
    js_string,
};
use toolhost_sdk::Root;
use toolhost_sdk::text;

/// Limit of a file that is read, in bytes; its text takes up to four times as much.
const MOST_BYTES: u64 = 16 << 20;
/// Limit of a path in bytes, as on Linux.
const MOST_BYTES_OF_PATH: usize = 4096;
/// The sandbox's error for a directory that is too large; std has no `ErrorKind` for it.
const OVERFLOW: i32 = if cfg!(target_os = "wasi") { 61 } else { 75 };

/// The directories of the call.
struct Roots(Vec<Root>);

/// A path in one of the directories.
struct Target {
    /// Absolute, without `.` and `..`.
    path: PathBuf,
    /// As in the script, escaped.
    shown: String,
    root: Root,
}

/// Defines the functions.
pub fn install(roots: &[Root], context: &mut Context) -> JsResult<()> {
    context.insert_data(Roots(roots.to_vec()));
    for (name, parameters, function) in [
        ("readFile", 1, NativeFunction::from_fn_ptr(read_file)),
        ("writeFile", 2, NativeFunction::from_fn_ptr(write_file)),
        ("listFiles", 0, NativeFunction::from_fn_ptr(list_files)),
    ] {
        context.register_global_callable(js_string!(name), parameters, function)?;
    }
    Ok(())
}

fn read_file(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let target = target("readFile", arguments.get_or_undefined(0), context)?;
    let read = || {
        let metadata = fs::metadata(&target.path)?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if metadata.len() > MOST_BYTES {
            let size = metadata.len();
            let message = format!("it has {size} bytes; at most {MOST_BYTES} can be read");
            return Err(io::Error::other(message));
        }
        fs::read(&target.path)
    };
    let bytes = read().map_err(|error| failure("readFile", &target, &error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        failure(
            "readFile",
            &target,
            &io::Error::other(format!("it is not UTF-8 text: invalid at byte {at}")),
        )
    })?;
    Ok(JsString::from(text).into())
}

fn write_file(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let target = target("writeFile", arguments.get_or_undefined(0), context)?;
    let Some(content) = arguments.get_or_undefined(1).as_string() else {
        return Err(type_error(
            "writeFile: the second argument is not a string; convert it with String(value) or JSON.stringify(value)",
        ));
    };
    if !target.root.is_writable() {
        let root = &target.root.path;
        return Err(plain_error(&format!(
            "writeFile: {} is in {root}, which is read-only; only the operator can change that: --allow-path DIR:rw",
            target.shown
        )));
    }
    let write = || {
        if let Some(parent) = target.path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&target.path, content.to_std_string_lossy())
    };
    write().map_err(|error| failure("writeFile", &target, &error))?;
    Ok(JsValue::undefined())
}

fn list_files(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let argument = arguments.get_or_undefined(0);
    let here = JsValue::from(js_string!("."));
    let argument = if argument.is_undefined() {
        &here
    } else {
        argument
    };
    let target = target("listFiles", argument, context)?;
    let read = || {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&target.path)? {
            let entry = entry?;
            // A name that is not UTF-8 could not be passed back.
            if let Ok(name) = entry.file_name().into_string() {
                entries.push((name, entry.metadata()?));
            }
        }
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        io::Result::Ok(entries)
    };
    let entries = read().map_err(|error| failure("listFiles", &target, &error))?;
    let list = JsArray::new(context)?;
    for (name, metadata) in entries {
        let kind = if metadata.is_dir() {
            "directory"
        } else if metadata.is_file() {
            "file"
        } else if metadata.is_symlink() {
            "link"
        } else {
            "other"
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "sizes of files have fewer than 53 bits"
        )]
        let size = metadata.len() as f64;
        let entry = ObjectInitializer::new(context)
            .property(js_string!("name"), js_string!(name), Attribute::all())
            .property(js_string!("type"), js_string!(kind), Attribute::all())
            .property(js_string!("size"), size, Attribute::all())
            .build();
        list.push(entry, context)?;
    }
    Ok(list.into())
}

/// Resolves a path of a script: relative to the first directory, or absolute.
///
/// The check is lexical and only improves error messages; the sandbox enforces access.
fn target(function: &str, argument: &JsValue, context: &Context) -> JsResult<Target> {
    let Some(given) = argument.as_string().map(|path| path.to_std_string_lossy()) else {
        return Err(type_error(&format!("{function}: the path is not a string")));
    };
    if given.is_empty() || given.contains('\0') || given.len() > MOST_BYTES_OF_PATH {
        return Err(type_error(&format!(
            "{function}: a path is not empty, has no NUL character and at most {MOST_BYTES_OF_PATH} bytes"
        )));
    }
    let roots = context
        .get_data::<Roots>()
        .map_or(&[][..], |roots| &roots.0);
    let Some(first) = roots.first() else {
        return Err(plain_error(&format!(
            "{function}: the call has no directories; the operator can grant one: --allow-path DIR"
        )));
    };
    let shown = text::inline(&given, 200);
    let path = normal(&Path::new(&first.path).join(&given));
    let root = roots
        .iter()
        .filter(|root| path.starts_with(&root.path))
        .max_by_key(|root| root.path.len());
    let Some(root) = root else {
        let roots = text::list(roots.iter().map(|root| root.path.as_str()), 5);
        return Err(plain_error(&format!(
            "{function}: {shown} is outside the allowed paths ({roots})"
        )));
    };
    Ok(Target {
        path,
        shown,
        root: root.clone(),
    })
}

/// Resolves `.` and `..` lexically. The parent of `/` is `/`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => normal.push(part),
        }
    }
    normal
}

fn failure(function: &str, target: &Target, error: &io::Error) -> JsError {
    let shown = &target.shown;
    let reason = match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::NotADirectory => "it is not a directory".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "it is protected, read-only, or a symbolic link that leaves the allowed paths"
                .to_owned()
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the limit of what a call may write is reached, or no space is left".to_owned()
        }
        _ if error.raw_os_error() == Some(OVERFLOW) => {
            "it has more entries than the host's limit".to_owned()
        }
        _ => text::inline(&error.to_string(), 200),
    };
    plain_error(&format!("{function}: cannot access {shown}: {reason}"))
}

fn plain_error(message: &str) -> JsError {
    JsNativeError::error()
        .with_message(message.to_owned())
        .into()
}

fn type_error(message: &str) -> JsError {
    JsNativeError::typ().with_message(message.to_owned()).into()
}
