"""Prints, as JSON, what cuda.pathfinder looks for, and where in site-packages."""

import json

import cuda.pathfinder as cp

out = {
    "libraries": {name: [[], []] for name in cp.SUPPORTED_NVIDIA_LIBNAMES},
    "headers": {name: [[], file] for name, file in cp.SUPPORTED_HEADERS_CTK.items()},
    "binaries": list(cp.SUPPORTED_BINARY_UTILITIES),
    "bitcode": list(cp.SUPPORTED_BITCODE_LIBS),
    "static": list(cp.SUPPORTED_STATIC_LIBS),
}
try:  # not part of its interface: names alone are compared where this has moved
    from cuda.pathfinder._dynamic_libs.descriptor_catalog import DESCRIPTOR_CATALOG
    from cuda.pathfinder._headers.header_descriptor_catalog import HEADER_DESCRIPTOR_CATALOG
except ImportError:
    pass
else:
    for lib in DESCRIPTOR_CATALOG:
        if lib.linux_sonames:
            out["libraries"][lib.name] = [list(lib.site_packages_linux), list(lib.linux_sonames)]
    for h in HEADER_DESCRIPTOR_CATALOG:
        if h.available_on_linux:
            out["headers"][h.name] = [list(h.site_packages_dirs), h.header_basename]
print(json.dumps(out))
