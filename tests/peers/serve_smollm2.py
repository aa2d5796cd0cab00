"""llama.cpp's own server on 127.0.0.1, from the package xllamacpp: MODEL.gguf TEMPLATE.jinja PORT CONTEXT KEY."""

import sys
import threading
from pathlib import Path

import xllamacpp

model, template, port, context, key = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path = model
params.chat_template = Path(template).read_text(encoding="utf-8")
params.use_jinja = True
params.hostnames, params.port, params.api_keys = ["127.0.0.1"], int(port), [key]
params.n_ctx, params.n_parallel, params.ui = int(context), 1, False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # more threads than free cores are far slower
server = xllamacpp.Server(params)
threading.Event().wait()
