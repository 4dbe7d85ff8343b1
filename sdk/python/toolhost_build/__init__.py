"""The command `toolhost-build MODULE`: builds the component of a plugin with componentize-py and the WIT of this package."""

import argparse
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

#: The WIT package `toolhost:sdk`, with `toolhost:plugin` in its `deps`.
WIT = pathlib.Path(__file__).parent / "wit"

#: The worlds by their short names.
WORLDS = {
    "plugin": "toolhost:plugin/plugin@0.1.0",
    "plugin-with-services": "toolhost:plugin/plugin-with-services@0.1.0",
    "plugin-with-preview": "toolhost:plugin/plugin-with-preview@0.1.0",
    "plugin-with-hooks": "toolhost:plugin/plugin-with-hooks@0.1.0",
    "complete": "toolhost:sdk/complete@0.1.0",
}


def main() -> int:
    """Builds a component, or with `--bindings` writes the modules of the world for editors, type checkers and tests."""
    parser = argparse.ArgumentParser(prog="toolhost-build", description=main.__doc__)
    parser.add_argument("module", help="module of the plugin, in the current directory or in --path")
    parser.add_argument("-w", "--world", choices=WORLDS, default="plugin")
    parser.add_argument("-p", "--path", action="append", default=[], help="directory of modules; repeatable")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="file of the component [default: MODULE.wasm]")
    parser.add_argument("--bindings", type=pathlib.Path, metavar="DIR", help="write the bindings and no component")
    arguments = parser.parse_args()
    compiler = [_compiler(), "--quiet", "--wit-path", str(WIT), "--world", WORLDS[arguments.world]]
    if arguments.bindings:
        return subprocess.call([*compiler, "bindings", str(arguments.bindings)])
    output = arguments.output or pathlib.Path(f"{arguments.module}.wasm")
    output.parent.mkdir(parents=True, exist_ok=True)
    # Nothing else of the machine is on the import path.
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    paths = [*(arguments.path or ["."]), sysconfig.get_path("purelib")]
    options = [word for path in paths for word in ("--python-path", path)]
    # A failed build must not leave half a component.
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".toolhost-build-") as stage:
        component = pathlib.Path(stage) / "plugin.wasm"
        command = [*compiler, "componentize", *options, arguments.module, "--output", str(component)]
        code = subprocess.call(command, env=environment)
        if code == 0:
            component.replace(output)
    return code


def _compiler() -> str:
    """The program of the environment that this package is installed in, whether or not the environment is active."""
    return str(pathlib.Path(sys.executable).parent / "componentize-py")
