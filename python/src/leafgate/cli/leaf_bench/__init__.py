"""The benchmark of leaf against shim: real gateways, real Node servers, one run, the same texts."""
