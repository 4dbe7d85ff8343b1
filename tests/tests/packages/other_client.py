"""Uploads a component in the layouts of other tools, and downloads a package of ours, with the library of ORAS.

Usage: other_client.py REGISTRY COMPONENT DIRECTORY REFERENCE
"""

import os
import shutil
import sys

import oras.client

registry, component, directory, reference = sys.argv[1:]
os.chdir(directory)
shutil.copy(component, "component.wasm")
with open("config.json", "w") as config:
    config.write("{}")
with open("policy.yaml", "w") as policy:
    policy.write("version: '1.0'\n")

# The name of a package, the type of its configuration, and its layers.
LAYOUTS = [
    ("wkg", "application/vnd.wasm.config.v0+json", ["component.wasm:application/wasm"]),
    (
        "content-layer",
        "application/vnd.wasm.config.v1+json",
        ["component.wasm:application/vnd.wasm.content.layer.v1+wasm"],
    ),
    (
        "with-policy",
        "application/vnd.oci.image.config.v1+json",
        [
            "component.wasm:application/vnd.bytecodealliance.wasm.component.layer.v0+wasm",
            "policy.yaml:application/vnd.wasm.policy.v1+yaml",
        ],
    ),
]

client = oras.client.OrasClient(hostname=registry, insecure=True)
for name, config_type, layers in LAYOUTS:
    client.push(
        files=layers,
        target=f"{registry}/foreign/{name}:1",
        manifest_config=f"config.json:{config_type}",
    )
print(*client.pull(target=reference, outdir="pulled"), sep="\n")
